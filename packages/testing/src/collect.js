// Preloaded into a server whose memory a test measures. On SIGUSR2, the server collects garbage, and then logs the
// spare size of its heap.
import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = globalThis.gc ?? runInNewContext("gc");
process.on("SIGUSR2", async () => {
  for (let i = 0; i < 3; i++) {
    collect();
    // Finalizers run later, and create more garbage.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { heapTotal, heapUsed } = process.memoryUsage();
  console.log(`{"level":"trace","msg":"collected","spareBytes":${heapTotal - heapUsed}}`);
});

// If the measuring process is killed, the standard input ends, and this server exits. Deno would not start before its
// input ends.
if (!("Deno" in globalThis)) {
  process.stdin.on("end", () => process.exit());
  process.stdin.resume();
}
