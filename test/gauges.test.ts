import { X509Certificate } from "node:crypto";
import { totalmem } from "node:os";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, inject, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ADMIN_ENV, adminOf, customerOf, newName } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { metricsTextOf, metricsUrlOf } from "./support/operations.ts";
import type { TestServer } from "./support/server.ts";

const HOUR_MS = 3_600_000;
const KEY = Buffer.alloc(32, 3).toString("base64");

function seriesOf(text: string, name: string): { [series: string]: number } {
  const lines = text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, "gm"));
  return Object.fromEntries([...lines].map(([, labels = "", value]) => [labels, Number(value)]));
}

/** Issues an API token, and makes a call with the token. If `hours` is undefined, the token never expires. */
async function useToken(server: TestServer, environment: object, hours?: number) {
  const expireTime = hours === undefined ? undefined : timestampFromMs(Math.trunc(Date.now() + hours * HOUR_MS));
  const values = { environment, displayName: "watched", role: Role.ADMIN, expireTime };
  const { token, apiToken } = await adminOf(server.url).createApiToken(values);
  await adminOf(server.url, token).getCaller({});
  return { id: apiToken?.id ?? "", seconds: Number(expireTime?.seconds) + (expireTime?.nanos ?? 0) / 1e9 };
}

describe.each(RUNTIMES)("gauges on %s", (runtime) => {
  const NAME = "ugs_api_token_expire_time_seconds";

  it("gauges report, for each environment, the API token in use that expires first", async () => {
    const server = await newServer({ runtime, env: { ...ADMIN_ENV, METRICS_PORT: "0" } });
    const series = async () => seriesOf(await metricsTextOf({ url: metricsUrlOf(server) }), NAME);
    expect(await series()).toEqual({});
    const other = { name: newName() };
    await adminOf(server.url).createEnvironment({ environment: other });
    await useToken(server, customerOf(server));
    await useToken(server, customerOf(server), 9);
    const first = await useToken(server, customerOf(server), 2);
    const ofOther = await useToken(server, other, 5);
    const { apiToken } = await adminOf(server.url).createApiToken({
      ...{ environment: customerOf(server), displayName: "not used", role: Role.READ },
      expireTime: timestampFromMs(Date.now() + HOUR_MS),
    });
    expect(apiToken?.id).toBeDefined();
    const path = `${server.environment}/Customer`;
    const expected = {
      [`environment="${path}",api_token_id="${first.id}"`]: first.seconds,
      [`environment="${other.name}",api_token_id="${ofOther.id}"`]: ofOther.seconds,
    };
    expect(await series()).toEqual(expected);
    await adminOf(server.url).revokeApiToken({ environment: other, apiTokenId: ofOther.id });
    expect(Object.keys(await series())).toEqual([Object.keys(expected)[0]]);
  });

  it("gauges contain no environment names if unauthenticated clients can read the metrics", async () => {
    const server = await newServer({ runtime, env: ADMIN_ENV });
    const other = { name: newName() };
    await adminOf(server.url).createEnvironment({ environment: other });
    await useToken(server, other, 5);
    const { seconds } = await useToken(server, customerOf(server), 2);
    expect(seriesOf(await metricsTextOf(server), NAME)).toEqual({ "": seconds });
  });

  it("gauges report the use of each token key, the expiry time of certificates, and the state of Redis", async () => {
    const tls = inject("certificates");
    const env = { METRICS_PORT: "0", TOKEN_KEYS: `new:${KEY},old:${KEY.replace("A", "B")}` };
    const server = await newServer({ runtime, tls, env: { ...env, TLS_CLIENT_CA_FILE: tls.ca.certFile } });
    const text = await metricsTextOf({ url: metricsUrlOf(server) });
    expect(seriesOf(text, "ugs_token_key_workers")).toEqual({
      'key_id="new",use="encrypt"': 1,
      'key_id="old",use="decrypt"': 1,
    });
    const endOf = (pem: string) => Date.parse(new X509Certificate(pem).validTo) / 1000;
    expect(seriesOf(text, "ugs_certificate_expire_time_seconds")).toEqual({
      'setting="TLS_CERT_FILE"': endOf(tls.server.cert),
      'setting="TLS_CLIENT_CA_FILE"': endOf(tls.ca.cert),
    });
    expect(seriesOf(text, "ugs_redis_ready")).toEqual({ "": 1 });
    expect(seriesOf(text, "ugs_ready")).toEqual({ 'kind="reads"': 1, 'kind="changes"': 1 });
    // The embedded store reports no memory.
    expect(seriesOf(text, "ugs_redis_memory_used_bytes")).toEqual({});
    expect(seriesOf(text, "ugs_workers")).toEqual({ "": 1 });
    expect(seriesOf(text, "ugs_worker_exits_total")).toEqual({ "": 0 });
  });
});

describeWithRedis.each(RUNTIMES)("gauges of Redis memory on %s", (runtime) => {
  const [USED, MAX] = ["ugs_redis_memory_used_bytes", "ugs_redis_memory_max_bytes"];

  it("gauges report the memory of each Redis node, or only the fullest node if the metrics are public", async () => {
    const redis = await newRedis(["--maxmemory", "100mb"]);
    const env = { ...ADMIN_ENV, METRICS_PORT: "0" };
    const server = await newServer({ runtime, redisUrl: redis.url, env });
    const text = await metricsTextOf({ url: metricsUrlOf(server) });
    const node = `node="127.0.0.1:${redis.port}"`;
    expect(seriesOf(text, MAX)).toEqual({ [node]: 100 * 2 ** 20 });
    const { [node]: used } = seriesOf(text, USED);
    expect(used).toBeGreaterThan(500_000);
    expect(used).toBeLessThan(100 * 2 ** 20);
    const open = await newServer({ runtime, redisUrl: redis.url });
    const openText = await metricsTextOf(open);
    expect(seriesOf(openText, MAX)).toEqual({ "": 100 * 2 ** 20 });
    expect(Object.keys(seriesOf(openText, USED))).toEqual([""]);
  });

  it("the maximum is the memory of the machine if Redis has no maxmemory", async () => {
    const server = await newServer({ runtime, redisUrl: (await newRedis()).url });
    expect(seriesOf(await metricsTextOf(server), MAX)[""]).toBe(totalmem());
  });

  it("the gauges of Redis memory are absent if the Redis user has no right to INFO", async () => {
    const redis = await newRedis();
    await newOperator(redis).acl("SETUSER", "narrow", "on", ">narrow-password", "~*", "&*", "+@all", "-info");
    const server = await newServer({ runtime, redisUrl: redis.url.replace("://", "://narrow:narrow-password@") });
    const text = await metricsTextOf(server);
    expect(seriesOf(text, USED)).toEqual({});
    expect(seriesOf(text, "ugs_ready")).toEqual({ 'kind="reads"': 1, 'kind="changes"': 1 });
  });
});
