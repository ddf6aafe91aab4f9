import { once } from "node:events";
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { collectBody } from "./body.ts";
import { Holdings } from "./holdings.ts";

it("takes an empty body that ended before it was known what serves its request", async () => {
  const source = new Readable({ read() {} });
  source.push(null);
  await once(source.resume(), "end");
  const bodies = new Holdings({ maxBytes: 1024, maxConnectionBytes: 1024, ownBytes: 0, timeoutMs: 60_000 });
  const taken: number[] = [];
  const onGivenUp = () => expect.unreachable();
  collectBody(
    source,
    { route: {}, bodies, connection: source },
    { onBody: ({ byteLength }) => taken.push(byteLength), onGivenUp },
  );
  expect(taken).toEqual([0]);
});
