import { describe, expect, inject, it } from "vitest";
import { isRunning } from "../process.ts";
import { cpuMsOf, heldBytesOf, idle } from "../process-usage.ts";
import { Bystander } from "./bystander.ts";
import { type Http2Options, Http2Wire } from "./http2-wire.ts";
import { PLACES, type Place } from "./place.ts";
import { slowness } from "./slowness.ts";
import type { StartSubject, SubjectServer } from "./subject.ts";
import { addRow } from "./table.ts";
import { unforeseenIn } from "./unforeseen.ts";
import { openTcp, openWire, type Wire } from "./wire.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Whether only a part of the faults and attacks is run, and the faults for a shorter time. */
    isShort: boolean;
  }
}

/** Whom an attack is directed at, and with what. */
export interface Target<S extends SubjectServer = SubjectServer> {
  readonly place: Place;
  readonly server: S;
  /** Opens a connection, which is closed after the attack. */
  http1(): Promise<Wire>;
  http2(options?: Http2Options): Promise<Http2Wire>;
  /** Without TLS, whatever is spoken there. */
  tcp(): Promise<Wire>;
}

/** What an attack took. */
export interface Effort {
  /** How many requests it made, or whatever else it repeats: its CPU time is divided by them. Default 1. */
  readonly requests?: number;
  /** How many connections it held: the memory is divided by them. Default 1. */
  readonly connections?: number;
  /** What became of it, in a few words. */
  readonly outcome: string;
}

/** What an attack may cost where `slowness` is 1. Bounds are far above what a sound server needs, so that a busy machine keeps them. */
export interface Bounds {
  /** CPU time a request, in milliseconds. */
  readonly cpuMs?: number;
  /** Memory a connection once the garbage is collected, in KiB, beyond `NOISE_BYTES` of all connections. */
  readonly heldKiB?: number;
}

/** An attack. */
export interface Attack<O = object, S extends SubjectServer = SubjectServer> {
  /** Its row in the table. */
  readonly title: string;
  readonly bounds: Bounds;
  /**
   * Whether it is run once before it is measured. A runtime keeps memory that it took for such work the first time: the
   * second time shows what is held.
   */
  readonly isRehearsed?: boolean;
  /** How the server is started. */
  readonly options?: O;
  /** Attacks; connections that it leaves open are measured as they are. */
  readonly run: (target: Target<S>) => Promise<Effort>;
}

/** What grows whatever is done: code that is compiled, caches that are filled. In bytes, for all connections together. */
const NOISE_BYTES = 24 * 1024 * 1024;
const WARM_UP_CALLS = 60;

/** Where attacks are run: at every place, or in short runs on Node in cleartext and on Deno over TLS. */
const ATTACKED = inject("isShort") ? PLACES.filter(({ runtime, tls }) => tls === (runtime === "deno")) : PLACES;

/** Makes a function that registers attacks at every place, each on a server of its own, and holds them to their bounds. */
export function attacksOn<O, S extends SubjectServer>(start: StartSubject<O, S>) {
  return (title: string, attacks: readonly Attack<O, S>[], { isConcurrent = false } = {}): void => {
    describe(title, () => {
      const register = isConcurrent ? it.concurrent : it;
      for (const attack of attacks) {
        for (const place of ATTACKED) {
          // What only waits can wait together.
          register(`${attack.title}: ${place.title}`, () => strike(start, attack, title, place));
        }
      }
    });
  };
}

async function strike<O, S extends SubjectServer>(
  start: StartSubject<O, S>,
  attack: Attack<O, S>,
  kind: string,
  place: Place,
): Promise<void> {
  const server = await start(place, inject("certificates"), attack.options);
  const bystander = new Bystander(server);
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
  const record = (row: { cpuMs?: number; heldBytes?: number; outcome: string }) =>
    addRow(inject("attackRows"), { kind, attack: attack.title, place: place.title, ...row });
  try {
    for (let i = 0; i < WARM_UP_CALLS; i++) await bystander.call();
    if (attack.isRehearsed) {
      await attack.run(target);
      await idle(server.pid);
      // What only waits takes about as long as a server keeps an idle connection: one of before may end as it is used.
      bystander.close();
      await bystander.call();
    }
    const slow = attack.bounds.cpuMs === undefined ? 1 : slowness();
    const before = { held: await heldBytesOf(server), cpu: cpuMsOf(server.pid) };
    bystander.start();
    const failed: { error?: unknown } = {};
    const effort = await attack.run(target).catch((error: unknown) => {
      failed.error = error;
      return { outcome: "failed" } as Effort;
    });
    if (!isRunning(server.pid)) record({ outcome: "**the process ended**" });
    expect(isRunning(server.pid), `the process lives\n${server.output().slice(-2000)}`).toBe(true);
    await idle(server.pid);
    const { requests = 1, connections = 1, outcome } = effort;
    const cpuMs = (cpuMsOf(server.pid) - before.cpu) / requests;
    const heldBytes = Math.max(0, (await heldBytesOf(server)) - before.held - NOISE_BYTES) / connections;
    await bystander.stop();
    for (const wire of wires) wire.close();
    record({ cpuMs, heldBytes, outcome: failed.error ? `**${messageOf(failed.error)}**` : outcome });
    if (failed.error) throw failed.error;
    // Calls that were under way while others were attacking, and one when it is over.
    expect(bystander.failures, "the bystander's calls").toEqual([]);
    expect(bystander.answered).toBeGreaterThan(0);
    await bystander.call();
    expect(unforeseenIn(server)).toEqual([]);
    if (attack.bounds.cpuMs !== undefined) {
      const factor = Math.max(slow, slowness());
      const what = `CPU ms a request, on a machine ${factor.toFixed(1)} times as slow as that of the bounds`;
      expect(cpuMs, what).toBeLessThan(factor * attack.bounds.cpuMs);
    }
    if (attack.bounds.heldKiB !== undefined) {
      expect(heldBytes / 1024, "KiB held a connection").toBeLessThan(attack.bounds.heldKiB);
    }
  } finally {
    await bystander.stop();
    bystander.close();
    for (const wire of wires) wire.close();
    await server.end();
  }
}

function messageOf(error: unknown): string {
  const [line] = (error instanceof Error ? error.message : String(error)).split("\n");
  return (line ?? "").slice(0, 80).replaceAll("|", "/");
}
