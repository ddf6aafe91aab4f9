import { readFileSync, writeFileSync } from "node:fs";
import type { ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { envelope, type HttpRequest, http2On, openHttp2 } from "@user-group-service/testing/http";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { closeLater, newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess } from "@user-group-service/testing/process";
import { freePort, pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { GetUserGroupRequestSchema } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { newRedis, newServer, redisUrl } from "../support/opened.ts";
import { waitUntilReady } from "../support/operations.ts";
import type { TestServer } from "../support/server.ts";
import { ALERTS, JOB, panelQueries, RULES_FILE } from "./files.ts";
import { exposeAll, pageOf, watchedServer } from "./page.ts";

const prometheus = orLeaveOut("prometheus", "the test of the dashboard is");
const GET = "/usergroup.v1.UserGroupService/GetUserGroup";
const GRPC_BODY = envelope(
  toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId: "a" })),
);

/** Panels that must show a value above zero during the run. */
const RISEN = [
  ...["Calls by method", "Calls by protocol", "Calls by code", "Error rate", "Errors by method and code"],
  ...[
    "Latency of all calls",
    "Round trips",
    "p99 latency of round trips",
    "Failed round trips",
    "Rate-limited calls",
    "Unauthenticated and unauthorized calls",
  ],
  ...[
    "Imported groups",
    "Lost spans",
    "CPU",
    "Memory per worker",
    "Event loop lag",
    "Instances",
    "Workers",
    "Worker exits",
  ],
  ...["API tokens in use", "Certificates", "Token keys"],
];

/** The error of Prometheus 2 if it evaluates a rule twice with the same timestamp, which happens on slow machines. */
const EVALUATED_TWICE = "duplicate sample for timestamp";

/** Starts a Prometheus that scrapes the pages every two seconds, and evaluates the repository's rules. */
async function newPrometheus(pages: readonly string[]) {
  const [folder, port] = [newFolder(), await freePort()];
  const own = parse(readFileSync(`${ROOT}/deploy/prometheus/prometheus.yaml`, "utf8"));
  const [job] = own.scrape_configs;
  expect([job.job_name, own.rule_files]).toEqual([JOB, ["alerts.yaml"]]);
  const targets = pages.map((page) => new URL(page).host);
  const config = {
    global: { evaluation_interval: "1s" },
    rule_files: [RULES_FILE],
    scrape_configs: [{ ...job, scrape_interval: "2s", scrape_timeout: "2s", static_configs: [{ targets }] }],
  };
  const file = join(folder, "prometheus.yaml");
  writeFileSync(file, JSON.stringify(config));
  const flags = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  newProcess(startProcess([prometheus as string, ...flags, "--log.level=warn"]));
  const ask = async (path: string, query: { readonly [name: string]: string } = {}) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}?${new URLSearchParams(query)}`);
    const { status, data, error } = (await answer.json()) as { status: string; data: Answer; error?: string };
    expect([status, error], JSON.stringify(query)).toEqual(["success", undefined]);
    return data;
  };
  await waitFor("Prometheus responds", () =>
    fetch(`http://127.0.0.1:${port}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return { ask };
}

interface Answer {
  readonly result: readonly { readonly metric: object; readonly values: readonly [number, string][] }[];
  readonly groups: readonly { readonly rules: readonly { name: string; health: string; lastError?: string }[] }[];
}

/** Makes calls of every kind until the load is stopped. Some of the calls fail on purpose. */
function beginLoad({ url, tokens }: TestServer): { stop(): Promise<void> } {
  let isOver = false;
  const each = async (session: ClientHttp2Session) => {
    const send = (path: string, request: HttpRequest) => http2On(session, path, request).catch(() => {});
    const post = (type: string, body: string | Buffer, authorization: string) => {
      const headers = { "content-type": type, authorization, te: "trailers", "x-forwarded-for": "192.0.2.1" };
      return { method: "POST", headers, body };
    };
    let round = 0;
    while (!isOver && !session.destroyed) {
      const authorization = `Token ${tokens.customer}`;
      await send("/api/user?user_group_id=a", { headers: { authorization } });
      await send(GET, post("application/json", '{"userGroupId":"a"}', authorization));
      await send(GET, post("application/grpc", GRPC_BODY, authorization));
      await send(GET, post("application/json", "{", authorization));
      // After some authentication failures, the service limits the client address. So change the address every 16
      // rounds.
      const wrong = post("application/json", '{"userGroupId":"a"}', "Token wrong-0123456789");
      await send(GET, { ...wrong, headers: { ...wrong.headers, "x-forwarded-for": `198.51.100.${++round >> 4}` } });
      // This burst exceeds RATE_LIMIT.
      const other = post("application/json", '{"userGroupId":"a"}', `Token ${tokens.testing}`);
      await Promise.all(Array.from({ length: 30 }, () => send(GET, other)));
      await pause(50);
    }
  };
  const over = (async () => {
    while (!isOver) {
      const session = openHttp2(url);
      await each(session);
      session.destroy();
      await pause(50);
    }
  })();
  return {
    stop: () => {
      isOver = true;
      return over;
    },
  };
}

describe.skipIf(redisUrl === undefined || prometheus === undefined)("the dashboard", () => {
  it("shows data in every panel during a run with load and faults", async () => {
    const redis = await newRedis(["--appendonly", "yes"]);
    const { tls, env } = watchedServer();
    const limits = { RATE_LIMIT: "20/1s", AUTH_FAILURE_LIMIT: "5/1m", TRUSTED_PROXIES: "127.0.0.1" };
    const settings = { ...env, ...limits, OTEL_TRACES_SAMPLER: "always_on" };
    const options = { redisUrl: redis.url, tls, env: { ...settings, WORKERS: "2" } };
    const server = await newServer(options);
    const second = await newServer({ ...options, env: settings, like: server });
    const { ask } = await newPrometheus([pageOf(server), pageOf(second)]);
    const began = Date.now() / 1000;
    const loads = [server, second].map(beginLoad);
    closeLater(() => Promise.all(loads.map((load) => load.stop())));
    const now = async (query: string) => (await ask("query", { query })).result;
    await waitFor("calls are counted", async () => (await now("sum(ugs_workers) == 3")).length > 0);
    await exposeAll(server);
    await waitFor("callers are limited", async () => (await now("min(sum by (limit) (ugs_limited_total)) > 0")).length);
    await redis.kill();
    const away = 'ALERTS{alertname="UserGroupsRedisUnreachable",alertstate="pending"}';
    await waitFor("the outage is visible", async () => (await now(away)).length === 2);
    await pause(5000);
    await redis.restart();
    const [page] = [pageOf(server), pageOf(second)].map((each) => each.replace("/metrics", ""));
    await waitUntilReady({ url: page as string });
    const victim = server.log().find(({ msg }) => msg === "worker listening")?.["pid"];
    process.kill(Number(victim), "SIGKILL");
    await waitFor("the exit is counted", async () => (await now("ugs_worker_exits_total == 1")).length > 0);
    await exposeAll(server);
    await waitFor("there are three workers again", async () => (await now("sum(ugs_workers) == 3")).length > 0);
    await waitFor("the outage is over", async () => (await now("min(ugs_redis_ready) == 1")).length > 0);
    await pause(5000);
    await Promise.all(loads.map((load) => load.stop()));

    const range = { start: String(began), end: String(Date.now() / 1000), step: "1" };
    const greatest = new Map<string, number>();
    for (const { title, expr } of panelQueries("10s")) {
      const { result } = await ask("query_range", { query: expr, ...range });
      const values = result.flatMap((series) => series.values.map(([, value]) => Number(value)));
      const finite = values.filter(Number.isFinite);
      expect(finite.length, `${title}: ${expr}`).toBeGreaterThan(0);
      greatest.set(title, Math.max(...finite, greatest.get(title) ?? Number.NEGATIVE_INFINITY));
      if (RISEN.includes(title)) expect(Math.max(...finite), title).toBeGreaterThan(0);
      if (["Connected", "Ready"].includes(title)) expect([Math.min(...finite), Math.max(...finite)]).toEqual([0, 1]);
    }
    expect([...greatest.keys()]).toEqual(expect.arrayContaining([...RISEN, "Connected", "Ready"]));
    expect(greatest.get("Calls refused because of overload")).toBe(0);
    const known = await waitFor("no rule was evaluated twice for the same time", async () => {
      const rules = (await ask("rules")).groups.flatMap((group) => group.rules);
      return rules.some(({ lastError }) => lastError === EVALUATED_TWICE) ? undefined : rules;
    });
    expect(known.filter(({ health }) => health !== "ok")).toEqual([]);
    expect(known.map(({ name }) => name)).toEqual(expect.arrayContaining(ALERTS.map(({ alert }) => alert)));
    for (const fell of ["grpc_server_handled_total", "ugs_redis_duration_seconds_count", "process_cpu_seconds_total"]) {
      const query = `max(resets(${fell}[5m]))`;
      const [found] = (await ask("query", { query })).result as unknown as [{ value: [number, string] }];
      expect(found.value[1], `${fell} fell`).toBe("0");
    }
  });
});
