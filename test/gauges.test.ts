import { X509Certificate } from "node:crypto";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, inject, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ADMIN_ENV, adminOf, customerOf, newName } from "./support/admin.ts";
import { newServer } from "./support/opened.ts";
import { metricsUrlOf } from "./support/operations.ts";
import type { TestServer } from "./support/server.ts";

const HOUR_MS = 3_600_000;
const KEY = Buffer.alloc(32, 3).toString("base64");

/** The series of a name on a page of metrics, with their values. */
async function seriesOf(page: string, name: string): Promise<{ [series: string]: number }> {
  const text = await (await fetch(page)).text();
  const lines = text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, "gm"));
  return Object.fromEntries([...lines].map(([, labels = "", value]) => [labels, Number(value)]));
}

/** Issues an API token that ends in some hours, or never, and uses it. */
async function useToken(server: TestServer, environment: object, hours?: number) {
  const expireTime = hours === undefined ? undefined : timestampFromMs(Math.trunc(Date.now() + hours * HOUR_MS));
  const values = { environment, displayName: "watched", role: Role.ADMIN, expireTime };
  const { token, apiToken } = await adminOf(server.url).createApiToken(values);
  await adminOf(server.url, token).getCaller({});
  return { id: apiToken?.id ?? "", seconds: Number(expireTime?.seconds) + (expireTime?.nanos ?? 0) / 1e9 };
}

describe.each(RUNTIMES)("gauges on %s", (runtime) => {
  const NAME = "ugs_api_token_expire_time_seconds";

  it("tell which API token in use ends first in each environment", async () => {
    const server = await newServer({ runtime, env: { ...ADMIN_ENV, METRICS_PORT: "0" } });
    const page = `${metricsUrlOf(server)}/metrics`;
    expect(await seriesOf(page, NAME)).toEqual({});
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
    expect(await seriesOf(page, NAME)).toEqual(expected);
    await adminOf(server.url).revokeApiToken({ environment: other, apiTokenId: ofOther.id });
    expect(Object.keys(await seriesOf(page, NAME))).toEqual([Object.keys(expected)[0]]);
  });

  it("name no environment where strangers read them", async () => {
    const server = await newServer({ runtime, env: ADMIN_ENV });
    const other = { name: newName() };
    await adminOf(server.url).createEnvironment({ environment: other });
    await useToken(server, other, 5);
    const { seconds } = await useToken(server, customerOf(server), 2);
    expect(await seriesOf(`${server.url}/metrics`, NAME)).toEqual({ "": seconds });
  });

  it("tell which key encrypts, when certificates end, and that Redis is there", async () => {
    const tls = inject("certificates");
    const env = { METRICS_PORT: "0", TOKEN_KEYS: `new:${KEY},old:${KEY.replace("A", "B")}` };
    const server = await newServer({ runtime, tls, env: { ...env, TLS_CLIENT_CA_FILE: tls.ca.certFile } });
    const page = `${metricsUrlOf(server)}/metrics`;
    expect(await seriesOf(page, "ugs_token_key_workers")).toEqual({
      'key_id="new",use="encrypt"': 1,
      'key_id="old",use="decrypt"': 1,
    });
    const endOf = (pem: string) => Date.parse(new X509Certificate(pem).validTo) / 1000;
    expect(await seriesOf(page, "ugs_certificate_expire_time_seconds")).toEqual({
      'setting="TLS_CERT_FILE"': endOf(tls.server.cert),
      'setting="TLS_CLIENT_CA_FILE"': endOf(tls.ca.cert),
    });
    expect(await seriesOf(page, "ugs_redis_ready")).toEqual({ "": 1 });
    expect(await seriesOf(page, "ugs_workers")).toEqual({ "": 1 });
    expect(await seriesOf(page, "ugs_worker_exits_total")).toEqual({ "": 0 });
  });
});
