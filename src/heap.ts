import { setFlagsFromString } from "node:v8";

/*
 * Calls that wait for Redis outlive collections of the young generation, so
 * much of what is promoted is garbage soon. The old generation is collected
 * when it has grown by this share, in per cent. Less keeps less memory resident,
 * but collects more often, and every collection holds calls up: at 30, so many
 * that p99 is that of a collection. Deno has V8's flags in its command.
 */
if (!("Deno" in globalThis)) setFlagsFromString("--heap-growing-percent=100");
