import { createInterface } from "node:readline";
import { type Network, parseNetwork } from "../../src/domain/client-address.ts";
import { Sender } from "../../src/webhooks/sender.ts";

/*
 * A program for Deno that sends messages to webhooks. The argument of the program contains the options as JSON. Each
 * line of standard input contains a message as JSON. The program sends the message, and prints a line with the result
 * as JSON.
 */

export interface RemoteSenderOptions {
  /**
   * The addresses that each name look-up returns. The first look-up returns the first element, and so on. After the
   * last element, all look-ups return the last element.
   */
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
