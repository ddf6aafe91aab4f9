import { isRunning } from "@user-group-service/testing/process";
import { cpuMsOf, heldBytesOf, idle } from "@user-group-service/testing/process-usage";
import { describe, expect, inject, it } from "vitest";
import { startRedis, type TestRedis } from "../../support/redis.ts";
import type { TestServer } from "../../support/server.ts";
import { Bystander } from "./bystander.ts";
import { type Http2Options, Http2Wire } from "./http2-wire.ts";
import { PLACES, type Place, startAt } from "./place.ts";
import { addRow } from "./table.ts";
import { unforeseenIn } from "./unforeseen.ts";
import { openTcp, openWire, type Wire } from "./wire.ts";

/** Whom an attack is directed at, and with what. */
export interface Target {
  readonly place: Place;
  readonly server: TestServer;
  /** The Redis of the server; undefined when it has the embedded store. */
  readonly redis: TestRedis | undefined;
  /** Opens a connection, which is closed after the attack. */
  http1(): Promise<Wire>;
  http2(options?: Http2Options): Promise<Http2Wire>;
  /** Without TLS, whatever is spoken there. */
  tcp(): Promise<Wire>;
}

/** What an attack took. */
export interface Effort {
  /** Over how many requests, or whatever else it repeats, its CPU time is spread. Default 1. */
  readonly requests?: number;
  /** Over how many connections the memory is spread. Default 1. */
  readonly connections?: number;
  /** What became of it, in a few words. */
  readonly outcome: string;
}

/** What an attack may cost. Bounds are far above what a sound server needs, so that a busy machine keeps them. */
export interface Bounds {
  /** CPU time a request, in milliseconds. */
  readonly cpuMs?: number;
  /** Memory a connection once the garbage is collected, in KiB. Of what does not grow: all of it counts as noise. */
  readonly heldKiB?: number;
}

/** An attack. */
export interface Attack {
  /** Its row in the table. */
  readonly title: string;
  readonly bounds: Bounds;
  /**
   * Whether it is run once before it is measured. What a runtime takes for such work the first time, it keeps for the
   * next: the second time shows what is held.
   */
  readonly isRehearsed?: boolean;
  /** Whether the server has a Redis of its own. Default: the embedded store. */
  readonly needsRedis?: boolean;
  /** Further settings of the server. */
  readonly env?: { readonly [name: string]: string };
  /** Attacks; connections that it leaves open are measured as they are. */
  readonly run: (target: Target) => Promise<Effort>;
}

/** What grows whatever is done: code that is compiled, caches that are filled. In bytes, for all connections together. */
const NOISE_BYTES = 24 * 1024 * 1024;
const WARM_UP_CALLS = 60;

/** Each runtime, and TLS or none, where a part has to do. */
const ATTACKED = inject("isShort") ? PLACES.filter(({ runtime, tls }) => tls === (runtime === "deno")) : PLACES;

/** The short run shares the machine with what else is tried there, and shows what costs many times as much as it may. */
const CPU_SLACK = inject("isShort") ? 4 : 1;

/** Runs attacks at every place, each on a server of its own, and holds them to their bounds. */
export function describeAttacks(title: string, attacks: readonly Attack[], { isConcurrent = false } = {}): void {
  describe(title, () => {
    const register = isConcurrent ? it.concurrent : it;
    for (const attack of attacks) {
      for (const place of ATTACKED) {
        // What only waits can wait together.
        register(`${attack.title}: ${place.title}`, () => strike(attack, title, place));
      }
    }
  });
}

async function strike(attack: Attack, kind: string, place: Place): Promise<void> {
  const redis = attack.needsRedis ? await startRedis() : undefined;
  const server = await startAt(place, inject("certificates"), {
    redisUrl: redis?.url,
    ...(attack.env && { env: attack.env }),
  });
  const bystander = new Bystander(server);
  const wires: Wire[] = [];
  const keep = (wire: Wire): Wire => {
    wires.push(wire);
    return wire;
  };
  const target: Target = {
    place,
    server,
    redis,
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
    }
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
      expect(cpuMs, "CPU ms a request").toBeLessThan(CPU_SLACK * attack.bounds.cpuMs);
    }
    if (attack.bounds.heldKiB !== undefined) {
      expect(heldBytes / 1024, "KiB held a connection").toBeLessThan(attack.bounds.heldKiB);
    }
  } finally {
    await bystander.stop();
    bystander.close();
    for (const wire of wires) wire.close();
    server.signal("SIGKILL");
    await server.exited();
    await redis?.stop();
  }
}

function messageOf(error: unknown): string {
  const [line] = (error instanceof Error ? error.message : String(error)).split("\n");
  return (line ?? "").slice(0, 80).replaceAll("|", "/");
}
