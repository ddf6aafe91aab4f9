import { once } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it, vi } from "vitest";
import type { HttpResponse } from "../http-types.ts";
import { DEFAULT_LIMITS } from "../limits.ts";
import { ClientBudget, UNIT_BYTES } from "./client-budget.ts";
import { DelayedCharges } from "./delayed-charges.ts";
import { type RequestContext, ServerRequest } from "./server-request.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const MIB = 1024 * 1024;
const REQUESTS = 48;

async function buffersMib(): Promise<number> {
  // Buffers are freed one turn of the event loop after the garbage collection.
  for (let i = 0; i < 3; i++) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().arrayBuffers / MIB;
}

class SourceRequest extends ServerRequest {
  readonly httpMethod = "POST";
  readonly target = "/";
  readonly headers = {};
  protected readonly hasBody: boolean = true;
  readonly isDisconnected = false;
  readonly unreadBytes = 0;
  protected isWritten = false;
  readonly #source: Readable;

  constructor(source: Readable, context: RequestContext) {
    super(new PassThrough() as never, context);
    this.#source = source;
  }

  pauseConnections(): [] {
    return [];
  }

  peerAddress(): string {
    return "a";
  }
  protected openBody(): Readable {
    return this.#source;
  }
  protected handOver(): never {
    throw new TypeError("the request is not a stream");
  }
  protected respond(): void {}
  protected reset(): void {}
  protected abandon(): void {}
}

class AnsweredRequest extends SourceRequest {
  protected override readonly hasBody = false;
  isAbandoned = false;
  readonly #bytes: number;

  constructor(bytes: number, context: RequestContext) {
    super(new PassThrough(), context);
    this.#bytes = bytes;
  }

  protected override respond(): void {
    this.chargeResponse(this.#bytes);
  }
  protected override abandon(): void {
    this.isAbandoned = true;
  }
  /** Simulates that the kernel takes the response. */
  take(): void {
    this.isWritten = true;
  }
}

/** Creates a function that receives bodies of one client. The result of each request is added to `ends`. */
function receiver(maxBytes: number, wantedBytes = Number.POSITIVE_INFINITY, budgets: Partial<RequestContext> = {}) {
  const ends: string[] = [];
  const response: HttpResponse = { status: 200, headers: {}, body: "" };
  const bodies = new ClientBudget(maxBytes / UNIT_BYTES);
  const context: RequestContext = {
    find: () => ({
      maxBytes: wantedBytes,
      call: { isOpen: false, leave: () => {} },
      serve: async ({ body }) => {
        ends.push(`${body.byteLength} bytes`);
        return response;
      },
    }),
    refuse: ({ kind }) => {
      ends.push(kind);
      return response;
    },
    onError: (error) => expect.unreachable(String(error)),
    limits: DEFAULT_LIMITS,
    delayedCharges: new DelayedCharges(),
    scheme: "http",
    bodies,
    responses: new ClientBudget(),
    streams: new ClientBudget(),
    ...budgets,
  };
  return { ends, bodies, context, receive: (source: Readable) => new SourceRequest(source, context).serve() };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Starts `REQUESTS` requests, and sends the first MiB of each body. Returns the results and the open sources. */
async function sendHalf(maxBytes: number, wantedBytes = Number.POSITIVE_INFINITY) {
  const { ends, receive } = receiver(maxBytes, wantedBytes);
  const sources: PassThrough[] = [];
  for (let i = 0; i < REQUESTS; i++) {
    const source = new PassThrough();
    receive(source);
    source.write(Buffer.alloc(MIB));
    for (let turns = 0; turns < 3; turns++) await nextTurn();
    source.resume();
    sources.push(source);
  }
  return { ends, sources };
}

it("serves a request if its empty body ends before the route is found", async () => {
  const source = new Readable({ read() {} });
  source.push(null);
  await once(source.resume(), "end");
  const { ends, receive } = receiver(MIB);
  receive(source);
  expect(ends).toEqual(["0 bytes"]);
});

it("does not charge the client for a body that arrives within a turn of the event loop", async () => {
  const source = new PassThrough();
  const { ends, bodies, receive } = receiver(UNIT_BYTES);
  const charge = vi.spyOn(bodies, "charge");
  receive(source);
  source.end(Buffer.alloc(4 * UNIT_BYTES));
  for (let turns = 0; turns < 4; turns++) await nextTurn();
  expect(charge).not.toHaveBeenCalled();
  expect(ends).toEqual([`${4 * UNIT_BYTES} bytes`]);
});

it("frees the memory of a body that exceeds the budget before the rest of the body arrives", async () => {
  const before = await buffersMib();
  const { ends, sources } = await sendHalf(4 * MIB);
  expect(ends).toEqual(Array(REQUESTS - 4).fill("too-many-bodies"));
  expect((await buffersMib()) - before).toBeLessThan(8);
  for (const source of sources) source.destroy();
});

it("frees the memory of an oversized body before the rest of the body arrives", async () => {
  const before = await buffersMib();
  const { ends, sources } = await sendHalf(1024 * MIB, 0);
  expect(ends).toEqual(Array(REQUESTS).fill(`${MIB} bytes`));
  expect((await buffersMib()) - before).toBeLessThan(8);
  for (const source of sources) source.destroy();
});

it("a server beyond its budget abandons long responses, and short responses that the kernel does not take in time", async () => {
  const { context } = receiver(MIB, MIB, { responses: new ClientBudget(0), streams: new ClientBudget(4) });
  const charge = vi.spyOn(context.streams, "charge");
  const [long, taken, ...unread] = [UNIT_BYTES + 1, ...Array(10).fill(1)].map(
    (bytes) => new AnsweredRequest(bytes, context),
  );
  for (const each of [taken, ...unread, long]) each?.serve();
  await waitFor("the short responses are charged", () => charge.mock.calls.length === 10);
  taken?.take();
  const abandoned = () => unread.filter(({ isAbandoned }) => isAbandoned).length;
  // The budget of streams has room for four short responses.
  expect(abandoned()).toBe(6);
  await waitFor("the unread responses are abandoned", () => abandoned() === 9);
  expect([taken, long].map((each) => each?.isAbandoned)).toEqual([false, true]);
});

it("charges each unfinished request once, at the end of the next turn of the event loop", async () => {
  const charges = new DelayedCharges();
  const requested: number[] = [];
  const begin = (i: number, then = () => {}) =>
    charges.add({
      additions: 0,
      chargeIfUnfinished: () => {
        requested.push(i);
        then();
      },
    });
  for (const i of [1, 2]) begin(i, () => begin(i + 10));
  await nextTurn();
  begin(3);
  expect(requested).toEqual([]);
  await nextTurn();
  expect(requested).toEqual([1, 2]);
  await nextTurn();
  expect(requested).toEqual([1, 2, 3]);
  for (let i = 0; i < 5; i++) await nextTurn();
  expect(requested).toEqual([1, 2, 3, 11, 12]);
  begin(4);
  for (let i = 0; i < 3; i++) await nextTurn();
  expect(requested.at(-1)).toBe(4);
  const twice = { additions: 0, chargeIfUnfinished: vi.fn<() => void>() };
  charges.add(twice);
  await nextTurn();
  charges.add(twice);
  await nextTurn();
  expect(twice.chargeIfUnfinished).not.toHaveBeenCalled();
  for (let i = 0; i < 3; i++) await nextTurn();
  expect(twice.chargeIfUnfinished).toHaveBeenCalledOnce();
});
