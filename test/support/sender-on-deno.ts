import { createInterface } from "node:readline";
import { type Network, parseNetwork } from "../../src/domain/client-address.ts";
import { Sender } from "../../src/webhooks/sender.ts";

/*
 * A program for Deno that sends messages to webhooks. Its argument contains the options. It reads a message from each line of standard
 * input, and writes its result as a line.
 */

/** The options of the program. */
export interface RemoteSenderOptions {
  /** The results of the name lookups. The last one repeats. */
  readonly lookups: readonly (readonly string[])[];
  /** Networks that are allowed although they are not public. */
  readonly allowed: readonly string[];
  readonly timeoutMs?: number;
}

const { lookups, allowed, timeoutMs }: RemoteSenderOptions = JSON.parse(process.argv[2] ?? "");
const left = [...lookups];
const sender = new Sender({
  allowed: allowed.map((each) => parseNetwork(each) as Network),
  resolve: async () => (left.length > 1 ? left.shift() : left[0]) ?? [],
  timeoutMs,
});
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await sender.send(JSON.parse(line))));
}
sender.close();
