import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import type { PausedConnection, RequestHead } from "../http-types.ts";
import { CallQueue, type CallQueueOptions } from "./call-queue.ts";

afterEach(() => {
  vi.useRealTimers();
});

const IDLE = { headers: {}, isDisconnected: false, unreadBytes: 0, pauseConnections: () => [] };

/**
 * Creates a queue in which each new call must wait, because this turn has already begun the maximum number of calls.
 */
function busyQueue(options: CallQueueOptions = {}) {
  const callerOf = ({ target }: RequestHead) => {
    const [group = "", name = ""] = target.split("/");
    return { group, name };
  };
  const queue = new CallQueue({ callerOf, ...options });
  let begun = 0;
  while (begun < 1000 && queue.tryBegin()) begun++;
  const order: string[] = [];
  const wait = (caller: string, { timeoutMs, ...request }: Partial<RequestHead> & { timeoutMs?: number } = {}) => {
    const head = { ...IDLE, target: caller, ...request };
    const waiting = queue.wait(head as RequestHead, timeoutMs);
    void waiting.then((refused) => order.push(refused ? `${caller} ${refused}` : caller));
    return waiting;
  };
  return { queue, begun, order, wait };
}

function pausedConnection(resume: () => void): PausedConnection {
  return { isClosed: false, resume };
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn();
}

it("begins calls immediately, up to 64 in each turn of the event loop", async () => {
  const { queue, begun } = busyQueue();
  expect(begun).toBe(64);
  await turns(1);
  expect(queue.tryBegin()).toBe(true);
});

it("serves callers in rotation, one call of each caller at a time", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, order, wait } = busyQueue();
  for (let i = 0; i < 100; i++) void wait("flood");
  void wait("b");
  void wait("b");
  void wait("a");
  expect(queue.length).toBe(103);
  await turns(1);
  expect(order).toEqual(["flood", "b", "a", "flood", "b", ...Array(11).fill("flood")]);
  expect(queue.tryBegin()).toBe(false);
  await turns(10);
  expect([order.length, queue.length, queue.tryBegin()]).toEqual([103, 0, true]);
});

it("a full queue refuses the oldest call of the caller with the most calls", async () => {
  const refused: string[] = [];
  const { order, wait } = busyQueue({ maxCalls: 3 });
  const calls = ["flood 1", "flood 2", "flood 3", "flood 4", "b", "c", "d"].map(async (name) => {
    if (await wait(name.split(" ")[0] as string)) refused.push(name);
  });
  await turns(2);
  await Promise.all(calls);
  // The fourth call of the flood and the calls of b and c each replace a call of the flood. After that, each caller has
  // one call, so the queue refuses the call of d.
  expect(refused.sort()).toEqual(["d", "flood 1", "flood 2", "flood 3"]);
  expect(order.filter((text) => !text.endsWith("queue-full"))).toEqual(["flood", "b", "c"]);
});

it("begins three calls for each millisecond that the last turn of the event loop took", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { order, wait } = busyQueue();
  for (let i = 0; i < 1000; i++) void wait("a");
  vi.advanceTimersByTime(100);
  await turns(1);
  expect(order).toHaveLength(300);
});

it("serves groups in rotation, and the callers within a group in rotation", async () => {
  const { order, wait } = busyQueue();
  for (let i = 0; i < 10; i++) for (const name of ["1", "2", "3"]) void wait(`many/${name}`);
  for (let i = 0; i < 3; i++) void wait("one/1");
  await turns(1);
  expect(order.slice(0, 7)).toEqual(["many/1", "one/1", "many/2", "one/1", "many/3", "one/1", "many/1"]);
});

it("refuses calls of the largest group first, even if each caller of the group has few calls", async () => {
  const { order, wait } = busyQueue({ maxCalls: 100 });
  for (let i = 0; i < 80; i++) void wait(`many/${i % 40}`);
  for (let i = 0; i < 20; i++) void wait("one/1");
  for (let i = 0; i < 10; i++) void wait("one/1");
  await turns(10);
  expect(order.filter((text) => text.endsWith("queue-full"))).toHaveLength(10);
  expect(order.filter((text) => text.startsWith("one/1 "))).toEqual([]);
});

it("counts a large call as several calls, and refuses calls of the caller that uses the most memory", async () => {
  const { queue, order, wait } = busyQueue({ maxCalls: 1000 });
  for (let i = 0; i < 200; i++) void wait("small");
  // Each of these calls counts as 8 calls of 4 KiB.
  for (let i = 0; i < 150; i++) void wait("fat", { headers: { cookie: "x".repeat(32 * 1024 - 20) } });
  expect(queue.length).toBe(200 + 100);
  await turns(30);
  expect(new Set(order.filter((text) => text.endsWith("queue-full")))).toEqual(new Set(["fat queue-full"]));
});

it("refuses waiting calls when their arriving bodies exceed the limit of the queue", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  vi.advanceTimersByTime(1000);
  const { queue, order, wait } = busyQueue({ maxCalls: 1000 });
  const fat = { ...IDLE, target: "fat" };
  for (let i = 0; i < 500; i++) void queue.wait(fat as unknown as RequestHead);
  for (let i = 0; i < 500; i++) void wait("small");
  // Each of these calls counts as 16 calls of 4 KiB.
  fat.unreadBytes = 60 * 1024;
  await turns(1);
  // The small calls leave room for 31 large calls. In this turn, 8 large and 8 small calls begin.
  expect(queue.length).toBe(500 + 31 - 16);
  await turns(100);
  expect(order).toEqual(Array(500).fill("small"));
});

it("refuses a waiting call when its deadline passes, but not a call whose deadline is later", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { order, wait } = busyQueue();
  void wait("short", { timeoutMs: 100 });
  void wait("long", { timeoutMs: 5000 });
  void wait("none");
  void wait("longest", { timeoutMs: 60_000 });
  vi.advanceTimersByTime(4000);
  await turns(1);
  expect(order).toEqual(["short deadline-exceeded", "long", "none waited-too-long", "longest"]);
  for (let i = 0; i < 64; i++) void wait("longest", { timeoutMs: 60_000 });
  vi.advanceTimersByTime(10_001);
  await turns(1);
  expect(order.slice(4)).toEqual(Array(64).fill("longest waited-too-long"));
});

it("the queue refuses, in each turn of the event loop, at most 64 calls that have waited too long", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, order, wait } = busyQueue();
  for (let i = 0; i < 1000; i++) void wait(`late ${i}`);
  vi.advanceTimersByTime(2001);
  // This turn has taken a long time. The turns after this turn are short.
  await turns(1);
  const before = queue.length;
  await turns(1);
  expect(before - queue.length).toBeLessThanOrEqual(64);
  await turns(20);
  expect([queue.length, order.length]).toEqual([0, 1000]);
});

it("counts calls in flight toward maxCalls", async () => {
  const queue = new CallQueue({ maxCalls: 1 });
  queue.inFlight++;
  expect(queue.tryBegin()).toBe(false);
  expect(await queue.wait({ ...IDLE, target: "" } as unknown as RequestHead)).toBe("queue-full");
  queue.inFlight--;
  expect(queue.tryBegin()).toBe(true);
});

it("refuses calls that have waited for two seconds, and begins the newest call instead", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const waits: number[] = [];
  const { wait } = busyQueue({ onWaited: (seconds) => waits.push(seconds) });
  const late = [wait("a"), wait("a")];
  vi.advanceTimersByTime(2001);
  const newest = wait("a");
  await turns(2);
  expect([...(await Promise.all(late)), await newest]).toEqual(["waited-too-long", "waited-too-long", undefined]);
  expect(waits).toEqual([2.001, 0, 2.001]);
});

it("skips calls whose client has disconnected", async () => {
  const { queue, order, wait } = busyQueue();
  for (let i = 0; i < 1000; i++) void wait("gone", { isDisconnected: true });
  void wait("a");
  await turns(1);
  expect(order).toEqual(["a"]);
  await turns(20);
  expect(queue.length).toBe(0);
});

it("derives Retry-After from the number of waiting calls and the rate of the queue", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, wait } = busyQueue();
  expect(queue.retryAfterSeconds).toBe(1);
  for (let i = 0; i < 9000; i++) void wait("a");
  // Each turn of 50 ms begins 150 calls: 3,000 calls a second.
  for (let i = 0; i < 12; i++) {
    vi.advanceTimersByTime(50);
    await nextTurn();
  }
  expect([queue.length, queue.retryAfterSeconds]).toEqual([7200, 3]);
});

it("pauses the connections of a caller with many waiting calls, and resumes at most four in each turn of the event loop", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, wait } = busyQueue();
  let paused = 0;
  const firsts: boolean[] = [];
  const pauseConnections = (_caller: string, isFirst: boolean) => {
    firsts.push(isFirst);
    paused++;
    return [pausedConnection(() => paused--)];
  };
  for (let i = 0; i < 256; i++) void wait("flood", { pauseConnections });
  expect(paused).toBe(0);
  for (let i = 0; i < 20; i++) void wait("flood", { pauseConnections });
  expect(paused).toBe(20);
  // The first pause must also stop all connections that were stopped for the caller before. The later pauses must not.
  expect(firsts).toEqual([true, ...Array(19).fill(false)]);
  await turns(1);
  expect([queue.length, paused]).toEqual([260, 20]);
  await turns(1);
  expect([queue.length, paused]).toEqual([244, 16]);
  await turns(4);
  expect([queue.length, paused]).toEqual([180, 0]);
});

it("requests the pause of a caller's other connections only once, even if no connection is paused", async () => {
  const { wait } = busyQueue();
  const firsts: boolean[] = [];
  const pauseConnections = (_caller: string, isFirst: boolean) => {
    firsts.push(isFirst);
    return [];
  };
  for (let i = 0; i < 260; i++) void wait("flood", { pauseConnections });
  expect(firsts).toEqual([true, false, false, false]);
});

it("resumes all connections of a caller when no call of the caller waits", async () => {
  const { queue, wait } = busyQueue();
  let paused = 0;
  const pauseConnections = () => {
    paused += 200;
    return Array.from({ length: 200 }, () => pausedConnection(() => paused--));
  };
  for (let i = 0; i < 257; i++) void wait("flood", { pauseConnections });
  expect(paused).toBe(200);
  while (queue.length > 0) await turns(1);
  expect(paused).toBe(0);
});

it("resumes a paused connection even if calls of the caller keep arriving on other connections", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, wait } = busyQueue();
  let paused = 0;
  // HTTP/1.1 connections cannot be paused. Each connection sends its next call after a response.
  const flood = (): unknown => wait("flood").then(flood);
  for (let i = 0; i < 300; i++) flood();
  void wait("flood", { pauseConnections: () => [pausedConnection(() => paused--)] });
  paused++;
  let turnsPaused = 0;
  while (paused > 0 && turnsPaused < 100) {
    await turns(1);
    turnsPaused++;
  }
  expect(queue.length).toBeGreaterThan(256);
  expect(paused).toBe(0);
  // Each turn begins 16 calls. The queue resumes the connection after 200 calls.
  expect(turnsPaused).toBeGreaterThanOrEqual(13);
  expect(turnsPaused).toBeLessThanOrEqual(15);
});

it("shortens a long queue of a caller whose resumed connections each send 100 calls", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, wait } = busyQueue();
  // The server reads all buffered calls of a connection together. The client sends a new call after each answer.
  const newConnection = () => {
    let isPaused = false;
    let buffered = 100;
    const pause = () => {
      if (isPaused) return [];
      isPaused = true;
      return [pausedConnection(resume)];
    };
    const read = () => {
      for (; buffered > 0; buffered--) void wait("flood", { pauseConnections: pause }).then(onAnswer);
    };
    const onAnswer = () => {
      buffered++;
      if (!isPaused) read();
    };
    const resume = () => {
      isPaused = false;
      read();
    };
    return { read, pause };
  };
  for (let i = 0; i < 257; i++) void wait("flood");
  const paused = Array.from({ length: 40 }, newConnection);
  void wait("flood", { pauseConnections: () => paused.flatMap(({ pause }) => pause()) });
  for (let i = 0; i < 40; i++) newConnection().read();
  await turns(500);
  expect(queue.length).toBeLessThanOrEqual(700);
  await turns(500);
  expect(queue.length).toBeLessThanOrEqual(700);
});

it("keeps no closed connections, even if a caller uses a new connection for each call", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { queue, wait } = busyQueue();
  let kept = 0;
  const flood = () => {
    let isClosed = false;
    const connection: PausedConnection = {
      get isClosed() {
        if (isClosed) kept--;
        return isClosed;
      },
      resume: () => kept--,
    };
    const pauseConnections = () => {
      kept++;
      return [connection];
    };
    void wait("flood", { pauseConnections }).then(() => {
      isClosed = true;
      flood();
    });
  };
  for (let i = 0; i < 600; i++) flood();
  await turns(1000);
  expect(queue.length).toBeGreaterThan(256);
  expect(kept).toBeLessThanOrEqual(700);
});

it("does not pause the connection of a caller with few waiting calls", async () => {
  const { wait } = busyQueue();
  const pauses: string[] = [];
  const pauseConnections = (caller: string) => {
    pauses.push(caller.trim());
    return [];
  };
  const call = (caller: string) => void wait(caller, { pauseConnections });
  for (let i = 0; i < 300; i++) call("flood");
  call("other");
  expect([pauses.length, pauses.includes("other")]).toEqual([44, false]);
  // Each of the two callers may have half of the 256 waiting calls.
  for (let i = 0; i < 128; i++) call("other");
  expect(pauses.filter((caller) => caller === "other")).toHaveLength(1);
});
