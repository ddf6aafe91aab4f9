import { once } from "node:events";
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { collectBody } from "./body.ts";
import { MemoryBudget } from "./memory-budget.ts";

it("takes an empty body that ended before it was known what serves its request", async () => {
  const source = new Readable({ read() {} });
  source.push(null);
  await once(source.resume(), "end");
  const bodies = new MemoryBudget({ maxBytes: 1024, maxConnectionBytes: 1024, overheadBytes: 0, timeoutMs: 60_000 });
  const taken: number[] = [];
  const onEvicted = () => expect.unreachable();
  collectBody(
    source,
    { route: {}, bodies, connection: source },
    { onBody: ({ byteLength }) => taken.push(byteLength), onEvicted },
  );
  expect(taken).toEqual([0]);
});
