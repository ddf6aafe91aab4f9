import type { Redis } from "ioredis";
import type { UserGroupStore } from "../../src/domain/store.ts";
import { quantile } from "../statistics.ts";
import { BY, ENVIRONMENT, idOf, type Kind } from "./groups.ts";

export interface CallFigures {
  readonly title: string;
  /** Latency percentiles with one call at a time, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU time that this process and Redis use per call, with 64 calls in flight, in microseconds. */
  readonly storeMicros: number;
  readonly redisMicros: number;
}

export interface CallPlan {
  readonly kind: Kind;
  readonly groups: number;
  /**
   * Number of calls of each kind in a run. The first run makes one call at a time. The second run keeps 64 calls in
   * flight.
   */
  readonly calls: number;
}

const UNDER_WAY = 64;

export async function measureCalls(store: UserGroupStore, redis: Redis, plan: CallPlan): Promise<CallFigures[]> {
  const { kind, groups, calls } = plan;
  const pick = () => Math.floor(Math.random() * groups);
  const tokens = new Map<string, string>();
  const get = async () => {
    const { group, created } = await store.getOrCreate(ENVIRONMENT, kind.group(pick()), BY);
    if (created) throw new Error("a created group is missing");
    return group;
  };
  // A rotation revokes the token in its request, so two calls in flight must not use the same token.
  const take = () => {
    const [id, token] = tokens.entries().next().value ?? [];
    if (id === undefined || token === undefined) throw new Error("there are too few tokens");
    tokens.delete(id);
    return { id, token };
  };
  const rotate = async () => {
    const { id, token } = take();
    const rotation = { graceMs: 0, requestedGraceMs: undefined, requestId: undefined };
    const group = await store.rotate(ENVIRONMENT, { target: { by: "token", token }, ...rotation }, BY);
    tokens.set(id, group.token);
  };
  const resolve = async () => {
    const { id, token } = take();
    tokens.set(id, token);
    await store.resolve(ENVIRONMENT, token);
  };
  const update = async () => {
    await store.update(ENVIRONMENT, idOf(pick()), { name: `Changed number ${pick()}` }, "", BY);
  };
  const measured: CallFigures[] = [];
  const measure = async (title: string, call: () => Promise<unknown>) => {
    const alone: number[] = [];
    for (let i = 0; i < calls; i++) {
      const began = performance.now();
      await call();
      alone.push(performance.now() - began);
    }
    const [before, redisBefore] = [process.cpuUsage(), await redisCpuMicros(redis)];
    await Promise.all(
      Array.from({ length: UNDER_WAY }, async () => {
        for (let i = 0; i < calls / UNDER_WAY; i++) await call();
      }),
    );
    const { user, system } = process.cpuUsage(before);
    const made = UNDER_WAY * Math.ceil(calls / UNDER_WAY);
    alone.sort((a, b) => a - b);
    measured.push({
      title,
      p50: quantile(alone, 0.5),
      p99: quantile(alone, 0.99),
      storeMicros: (user + system) / made,
      redisMicros: ((await redisCpuMicros(redis)) - redisBefore) / made,
    });
  };
  await measure("Get", get);
  await measure("Update", update);
  while (tokens.size < Math.min(groups / 2, calls)) {
    const { providedId, token } = await get();
    tokens.set(providedId, token);
  }
  await measure("Rotate", rotate);
  await measure("Resolve", resolve);
  return measured;
}

async function redisCpuMicros(redis: Redis): Promise<number> {
  const info = await redis.info("cpu");
  const seconds = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1]);
  return (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6;
}
