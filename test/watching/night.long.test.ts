import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { closeLater, newFolder, newProcess } from "@user-group-service/testing/opened";
import { startProcess } from "@user-group-service/testing/process";
import { repeat } from "@user-group-service/testing/repeat";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import { ADMIN_ENV, adminOf } from "../support/admin.ts";
import { newOperator, newRedis, newServer, redisUrl } from "../support/opened.ts";
import { DURABLE, type TestRedis } from "../support/redis.ts";
import { grpcClients } from "../support/rpc.ts";
import type { TestServer } from "../support/server.ts";
import { JOB, rulesFasterBy } from "./files.ts";

const prometheus = orLeaveOut("prometheus", "the test of alerts during outages is");

/** All durations of the rules, and the scrape interval of 15 s, are divided by this factor. */
const FASTER = 30;

/**
 * After the alerts of an outage have fired, the outage continues for this number of scrapes. No other alert may fire in
 * this time.
 */
const SCRAPES = 20;

/** An outage of Redis, and the alerts that it must cause. */
interface Outage {
  readonly what: string;
  /** The alerts of severity `page` that must fire. */
  readonly pages: readonly string[];
  readonly begin: (stage: Stage) => Promise<unknown>;
  readonly end: (stage: Stage) => Promise<unknown>;
  /** Whether reads of existing groups succeed during the outage. */
  readonly reads: boolean;
}

interface Stage {
  readonly redis: TestRedis;
  readonly operator: Redis;
  readonly servers: readonly TestServer[];
}

const OUTAGES: readonly Outage[] = [
  {
    what: "full",
    pages: ["UserGroupsChangesFail", "UserGroupsRedisMemoryCritical"],
    begin: async ({ operator }) => operator.config("SET", "maxmemory", await usedMemory(operator)),
    end: ({ operator }) => operator.config("SET", "maxmemory", "0"),
    reads: true,
  },
  {
    what: "read-only",
    pages: ["UserGroupsChangesFail"],
    begin: async ({ operator }) => operator.replicaof("127.0.0.1", await freePort()),
    end: ({ operator }) => operator.replicaof("NO", "ONE"),
    reads: true,
  },
  {
    what: "empty",
    pages: ["UserGroupsChangesFail", "UserGroupsRedisDataReplaced"],
    begin: ({ operator }) => operator.flushall(),
    async end({ operator, servers: [server] }) {
      // If the service had created the group again, Redis would contain its key.
      expect(await operator.keys("ug:*:group:*")).toEqual([]);
      await adminOf((server as TestServer).url).acceptStoreData({});
    },
    reads: false,
  },
  {
    what: "gone",
    pages: ["UserGroupsReadsFail", "UserGroupsRedisUnreachable"],
    begin: ({ redis }) => redis.kill(),
    end: ({ redis }) => redis.restart(),
    reads: false,
  },
];

/** This alert may fire in every outage. It fires until its time window contains no failed calls. */
const CALLS_FAIL = "UserGroupsHighErrorRate";

async function usedMemory(operator: Redis): Promise<string> {
  return /used_memory:(\d+)/.exec(await operator.info("memory"))?.[1] ?? "";
}

async function watch(servers: readonly TestServer[]) {
  const folder = newFolder();
  const [rules, config] = [join(folder, "alerts.yaml"), join(folder, "prometheus.yaml")];
  writeFileSync(rules, JSON.stringify(rulesFasterBy(FASTER)));
  const targets = servers.map(({ url }) => new URL(url).host);
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: "500ms", scrape_timeout: "500ms", evaluation_interval: "500ms" },
      rule_files: [rules],
      scrape_configs: [{ job_name: JOB, static_configs: [{ targets }] }],
    }),
  );
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const files = [`--config.file=${config}`, `--storage.tsdb.path=${join(folder, "data")}`];
  newProcess(
    startProcess([prometheus as string, ...files, `--web.listen-address=${address}`, "--log.level=error"], {}),
  );
  const ask = async (path: string): Promise<unknown> => {
    const response = await fetch(`http://${address}/api/v1/${path}`);
    return ((await response.json()) as { data: unknown }).data;
  };
  await waitFor("Prometheus responds", () => ask("alerts").catch(() => undefined));
  const average = async (perServer: string): Promise<number> => {
    const { result } = (await ask(`query?query=${encodeURIComponent(`sum(${perServer})`)}`)) as {
      result: { value: [number, string] }[];
    };
    return Number(result[0]?.value[1] ?? 0) / servers.length;
  };
  return {
    /** Returns the names of the alerts that have the severity `page` and one of the given states. */
    async pages(states: readonly string[] = ["firing"]): Promise<readonly string[]> {
      const { alerts } = (await ask("alerts")) as {
        alerts: { state: string; labels: { alertname: string; severity: string } }[];
      };
      const selected = alerts.filter(({ state, labels }) => states.includes(state) && labels.severity === "page");
      return [...new Set(selected.map(({ labels }) => labels.alertname))].sort();
    },
    scrapes: () => average(`count_over_time(up{job="${JOB}"}[1d])`),
    /**
     * Returns whether all scrapes of the last two seconds succeeded. After a failed scrape, Prometheus has no samples
     * of the server, so an alert can stop before the outage ends.
     */
    isScraped: async () => (await average(`min_over_time(up{job="${JOB}"}[2s])`)) === 1,
  };
}

/** Reads, changes and creates groups on all servers until the test ends. */
function call(servers: readonly TestServer[]) {
  const failed = { reads: 0, changes: 0, creations: 0 };
  let reads = 0;
  const tokens = new Set<string>();
  let created = 0;
  const loops = servers.flatMap((server) => {
    const { groups } = grpcClients(server);
    const calls = {
      reads: () => {
        reads++;
        return groups
          .getUserGroup({ userGroupId: "known" })
          .then(({ userGroup }) => tokens.add(userGroup?.token ?? ""));
      },
      changes: () => groups.updateUserGroup({ userGroupId: "known", name: `name ${created}` }),
      creations: () => groups.getUserGroup({ userGroupId: `group ${created++}` }),
    };
    return (Object.keys(calls) as (keyof typeof calls)[]).map((kind) => async () => {
      await calls[kind]().catch(() => failed[kind]++);
    });
  });
  const calls = repeat(loops, 100);
  closeLater(() => calls.end());
  return {
    tokens,
    /** Returns the numbers of failed calls and the ratio of failed reads, and resets the counters. */
    takeFailed() {
      const taken = { ...failed, share: failed.reads / Math.max(1, reads) };
      reads = 0;
      Object.assign(failed, { reads: 0, changes: 0, creations: 0 });
      return taken;
    },
  };
}

it.skipIf(prometheus === undefined || redisUrl === undefined)(
  "the expected alerts of severity page fire when Redis is full, read-only, empty or down",
  async () => {
    const redis = await newRedis(DURABLE);
    const operator = newOperator(redis);
    const first = await newServer({
      redisUrl: redis.url,
      env: { ...ADMIN_ENV, LOG_LEVEL: "info", REDIS_TIMEOUT: "1s" },
    });
    await grpcClients(first).groups.getUserGroup({ userGroupId: "known" });
    const servers = [first, await newServer({ redisUrl: redis.url, like: first, env: { REDIS_TIMEOUT: "1s" } })];
    const stage = { redis, operator, servers };
    const { pages, scrapes, isScraped } = await watch(servers);
    const calls = call(servers);
    const quiet = () =>
      waitFor("no alert is pending or firing", async () => {
        return (await isScraped()) && (await pages(["firing", "pending"])).every((alert) => alert === CALLS_FAIL);
      });
    const timeline: string[] = [];
    const seen = new Set<string>();
    await waitFor("the servers are scraped", async () => (await scrapes()) > SCRAPES);
    expect(await pages()).toEqual([]);
    calls.takeFailed();

    for (const { what, pages: expected, begin, end, reads } of OUTAGES) {
      const began = performance.now();
      const minutes = () => ((performance.now() - began) * FASTER) / 60_000;
      const fired = new Map<string, number>();
      const look = async () => {
        for (const alert of await pages()) if (!fired.has(alert)) fired.set(alert, minutes());
        return fired;
      };
      const before = new Set(await pages());
      await begin(stage);
      await waitFor(`${what}: ${expected.join(" and ")} fire`, async () => {
        await look();
        return expected.every((alert) => fired.has(alert));
      });
      const until = (await scrapes()) + SCRAPES;
      await waitFor("some minutes pass", async () => (await look()) && (await scrapes()) > until);
      const failed = calls.takeFailed();
      await end(stage);
      const ended = minutes();
      await quiet();
      for (const [alert, at] of fired) {
        seen.add(alert);
        if (!before.has(alert)) timeline.push(`${what.padEnd(10)} ${at.toFixed(1).padStart(5)} min  ${alert} fires`);
      }
      timeline.push(
        `${what.padEnd(10)} ${(minutes() - ended).toFixed(1).padStart(5)} min  no alert fires any more; failed: ${JSON.stringify(failed)}`,
      );
      expect([...fired.keys()].filter((alert) => alert !== CALLS_FAIL).sort(), what).toEqual(expected);
      expect(failed.changes, what).toBeGreaterThan(0);
      expect(failed.creations, what).toBeGreaterThan(0);
      // If the disk is slow for a second, Redis waits for the disk. So a few reads may fail even if the outage does not
      // affect reads.
      expect(failed.share < 0.05, `${what}: ${failed.reads} reads failed`).toBe(reads);
      calls.takeFailed();
    }
    console.log(timeline.join("\n"));
    expect(seen).toContain(CALLS_FAIL);
    // In the outage `empty`, Redis lost all data. After this outage, the service created the group again, with a second
    // token. At the end, the group must have one of the tokens that callers have received.
    await waitFor("calls succeed", async () => {
      const answer = await grpcClients(first).groups.getUserGroup({ userGroupId: "known" });
      return calls.tokens.has(answer.userGroup?.token ?? "");
    });
    expect(calls.tokens.size).toBe(2);
  },
);
