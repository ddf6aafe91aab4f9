import { afterAll, describe, expect, inject, it } from "vitest";
import { isRunning } from "../process.ts";
import { cpuMsOf, heldBytesOf, idle } from "../process-usage.ts";
import { type Repeated, repeat } from "../repeat.ts";
import { bystanderOf } from "./bystander.ts";
import { type Http2Options, Http2Wire } from "./http2-wire.ts";
import { PLACES, type Place } from "./place.ts";
import { slowness } from "./slowness.ts";
import type { StartSubject, SubjectServer } from "./subject.ts";
import { unexpectedIn } from "./unexpected.ts";
import { openTcp, openWire, type Wire } from "./wire.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** If true, this run tests only some of the faults and attacks, and shortens each fault. */
    isShort: boolean;
  }
}

export interface Target<S extends SubjectServer = SubjectServer> {
  readonly place: Place;
  readonly server: S;
  http1(): Promise<Wire>;
  http2(options?: Http2Options): Promise<Http2Wire>;
  tcp(): Promise<Wire>;
}

/** The size of an attack, and its outcome. */
export interface Effort {
  /**
   * Number of requests that the attack sent, or number of actions that the attack repeated. The test divides the CPU
   * time by this number. Default 1.
   */
  readonly requests?: number;
  /** Number of connections that the attack left open. The test divides the memory growth by this number. Default 1. */
  readonly connections?: number;
  readonly outcome: string;
}

/**
 * The maximum cost of an attack on a machine where `slowness` is 1. If the server is correct, the cost is far below
 * these limits, even on a busy machine.
 */
export interface Bounds {
  /** CPU time per request, in milliseconds. */
  readonly cpuMs?: number;
  /**
   * Growth of the server's memory per connection, in KiB. The test measures the growth after a garbage collection,
   * subtracts `NOISE_BYTES`, and divides the result by the number of connections.
   */
  readonly heldKiB?: number;
}

export interface Attack<O = object, S extends SubjectServer = SubjectServer> {
  readonly title: string;
  readonly bounds: Bounds;
  /**
   * If true, the attack runs twice, and the test measures only the second run. In the first run, the runtime allocates
   * memory that the runtime never frees. The growth in the second run thus contains only the memory of the attack.
   */
  readonly isRehearsed?: boolean;
  readonly options?: O;
  /** Runs the attack. If `run` leaves connections open, the measurement includes their memory. */
  readonly run: (target: Target<S>) => Promise<Effort>;
}

/** Memory growth that can come from compiled code and caches, in bytes per server. */
const NOISE_BYTES = 24 * 1024 * 1024;
const WARM_UP_CALLS = 60;

const BYSTANDER_PAUSE_MS = 200;

/** The attacked runtimes, with and without TLS. A short run attacks only Node without TLS and Deno with TLS. */
const ATTACKED = inject("isShort") ? PLACES.filter(({ runtime, tls }) => tls === (runtime === "deno")) : PLACES;

/**
 * Creates a function that registers one test per attack and `Place`. Each test starts a server, and fails if the attack
 * exceeds a limit. After all tests, the suite prints the costs as a Markdown table.
 */
export function attacksOn<O, S extends SubjectServer>(start: StartSubject<O, S>) {
  return (title: string, attacks: readonly Attack<O, S>[], { isConcurrent = false } = {}): void => {
    describe(title, () => {
      const rows = attacks.map((attack) => ({ title: attack.title, cells: ATTACKED.map(() => "") }));
      const register = isConcurrent ? it.concurrent : it;
      for (const [i, attack] of attacks.entries()) {
        for (const [column, place] of ATTACKED.entries()) {
          // Attacks that use much CPU slow each other down. So `isConcurrent` should be true only for attacks that
          // mostly wait.
          register(`${attack.title}: ${place.title}`, () =>
            strike(start, attack, place, (cost) => rows[i]?.cells.splice(column, 1, cost)),
          );
        }
      }
      afterAll(() => {
        const head = ["attack", ...ATTACKED.map((place) => place.title)];
        const lines = [head, head.map(() => "---"), ...rows.map((row) => [row.title, ...row.cells])];
        console.log([`## ${title}`, "", ...lines.map((cells) => `| ${cells.join(" | ")} |`)].join("\n"));
      });
    });
  };
}

async function strike<O, S extends SubjectServer>(
  start: StartSubject<O, S>,
  attack: Attack<O, S>,
  place: Place,
  record: (cost: string) => void,
): Promise<void> {
  const server = await start(place, inject("certificates"), attack.options);
  const bystander = bystanderOf(server);
  let answered = 0;
  const call = async () => {
    await bystander.call();
    answered++;
  };
  let bystanding: Repeated | undefined;
  const wires: Wire[] = [];
  const keep = (wire: Wire): Wire => {
    wires.push(wire);
    return wire;
  };
  const target: Target<S> = {
    place,
    server,
    http1: async () => keep(await openWire(server.url, "http/1.1")),
    http2: async (options) => {
      const http2 = await Http2Wire.open(server.url, options);
      keep(http2.wire);
      return http2;
    },
    tcp: async () => keep(await openTcp(server.url)),
  };
  try {
    for (let i = 0; i < WARM_UP_CALLS; i++) await bystander.call();
    if (attack.isRehearsed) {
      await attack.run(target);
      await idle(server.pid);
      // The server closes idle connections, so the bystander's connections may be closed after a long first run. Open
      // new connections before the measurement.
      bystander.close();
      await bystander.call();
    }
    const slow = attack.bounds.cpuMs === undefined ? 1 : slowness();
    const before = { held: await heldBytesOf(server), cpu: cpuMsOf(server.pid) };
    bystanding = repeat([call], BYSTANDER_PAUSE_MS);
    const isUp = () =>
      expect(isRunning(server.pid), `the process is running\n${server.output().slice(-2000)}`).toBe(true);
    const { requests = 1, connections = 1, outcome } = await attack.run(target).finally(isUp);
    await idle(server.pid);
    const cpuMs = (cpuMsOf(server.pid) - before.cpu) / requests;
    const heldBytes = Math.max(0, (await heldBytesOf(server)) - before.held - NOISE_BYTES) / connections;
    await bystanding.end();
    for (const wire of wires) wire.close();
    record(`${short(cpuMs)} ms, ${sizeOf(heldBytes)}, ${outcome}`);
    expect(bystanding.failures.slice(0, 5), "the bystander's calls").toEqual([]);
    expect(answered).toBeGreaterThan(0);
    await bystander.call();
    expect(unexpectedIn(server)).toEqual([]);
    if (attack.bounds.cpuMs !== undefined) {
      const factor = Math.max(slow, slowness());
      const what = `CPU ms per request, on a machine ${factor.toFixed(1)} times as slow as the reference machine`;
      expect(cpuMs, what).toBeLessThan(factor * attack.bounds.cpuMs);
    }
    if (attack.bounds.heldKiB !== undefined) {
      expect(heldBytes / 1024, "KiB per connection").toBeLessThan(attack.bounds.heldKiB);
    }
  } finally {
    await bystanding?.end();
    bystander.close();
    for (const wire of wires) wire.close();
    await server.end();
  }
}

function sizeOf(bytes: number): string {
  const kib = bytes / 1024;
  return kib < 1000 ? `${short(kib)} KiB` : `${short(kib / 1024)} MiB`;
}

function short(value: number): string {
  return value === 0 ? "0" : String(Number(value.toPrecision(2)));
}
