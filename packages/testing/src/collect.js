// Preloaded into a server whose memory a test measures. On SIGUSR2, the server collects garbage, and then logs the
// unused bytes of its heap.
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

// If the measuring process is killed, the server's standard input ends, and the server exits. Deno waits for the end of
// its standard input before it starts, so this check is only for Node.
if (!("Deno" in globalThis)) {
  process.stdin.on("end", () => process.exit());
  process.stdin.resume();
}
