// A test that measures the memory of a server loads this script into the server before the server's own code. On
// SIGUSR2, the server collects garbage, and then logs the number of unused bytes in the heap.
import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = globalThis.gc ?? runInNewContext("gc");
process.on("SIGUSR2", async () => {
  for (let i = 0; i < 3; i++) {
    collect();
    // Finalizers run after a collection, and create more garbage.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { heapTotal, heapUsed } = process.memoryUsage();
  console.log(`{"level":"trace","msg":"collected","spareBytes":${heapTotal - heapUsed}}`);
});

// If the test process is killed, the standard input of the server ends. The server then exits. This check is only for
// Node: if a preloaded script reads the standard input, Deno starts the server only after the input has ended.
if (!("Deno" in globalThis)) {
  process.stdin.on("end", () => process.exit());
  process.stdin.resume();
}
