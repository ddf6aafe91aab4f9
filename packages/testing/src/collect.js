// Loaded before the server where a test measures its memory: SIGUSR2 has it collect its garbage, and say so and how much room
// its heap has to spare.
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

// The measuring process may be killed, and this server must end with it. Deno would not start before its input ends.
if (!("Deno" in globalThis)) {
  process.stdin.on("end", () => process.exit());
  process.stdin.resume();
}
