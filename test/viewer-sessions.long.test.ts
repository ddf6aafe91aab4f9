import { Agent } from "node:http";
import { http1 } from "@user-group-service/testing/http";
import { closeLater } from "@user-group-service/testing/opened";
import { repeat } from "@user-group-service/testing/repeat";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from "jose";
import { expect, it } from "vitest";
import { SigningKey_State as State } from "../gen/usergroup/admin/v1/signing_key_pb.ts";
import { PUBLISHED_MS } from "../src/sessions/keys.ts";
import { signingKeysKey } from "../src/store/keys.ts";
import { ADMIN_ENV, ADMIN_TOKEN, adminOf, bearer, customerOf } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer, redisUrl } from "./support/opened.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";
import { numberOfEnvironment } from "./support/stored-keys.ts";

const PUBLIC_URL = "https://groups.example.com";
const AUDIENCE = "https://dashboards.example.com";

const GROUPS = Array.from({ length: 20 }, (_, i) => `group ${i}`);

/**
 * Time between the rotation and the first use of the next key, in milliseconds. The workers receive no message about
 * the first use. Each worker reads the clock of the store to decide which key signs.
 */
const AHEAD_MS = 4000;

const ENOUGH = 10;

const [ROUNDS, AT_ONCE] = [2, 6];

/** Lifetime of the session whose expiry the test checks, in seconds. It is long enough for a busy machine. */
const BRIEF_S = 6n;

interface Worker {
  server: TestServer;
  isAway: boolean;
}

const [CREATE, RESOLVE] = ["/api/viewer/session", "/api/viewer"];

interface Made {
  readonly text: string;
  readonly at: Worker;
  readonly kid: string | undefined;
}

describeWithRedis("rotations of the signing key", () => {
  it("a rotation under load rejects no viewer session, even if a worker is killed and restarted", async () => {
    const redis = await newRedis();
    const env = { ...ADMIN_ENV, LOG_LEVEL: "info", PUBLIC_URL };
    const first = await newServer({ redisUrl: redis.url, env });
    const port = String(await freePort());
    const startSecond = () => newServer({ redisUrl: redis.url, env: { ...env, PORT: port }, like: first });
    const second: Worker = { server: await startSecond(), isAway: false };
    const workers = [{ server: first, isAway: false }, second];
    const environment = customerOf(first);
    const admin = adminOf(first.url);
    const { groups } = grpcClients(first);
    for (const userGroupId of GROUPS) await groups.getUserGroup({ userGroupId });
    const { make, resolve } = callsTo(first);
    const keyIn = async (state: State) => {
      const { signingKeys } = await admin.listSigningKeys({ environment });
      return signingKeys.find((each) => each.state === state)?.id;
    };

    await make(second, GROUPS[0]);
    const [oldKey, newKey = ""] = [await keyIn(State.ACTIVE), await keyIn(State.STANDBY)];
    const load = startLoad({ workers, make, resolve }, await publishedKeys(first));
    const hasEnoughOf = (kid: string | undefined) =>
      workers.every((worker) => {
        return load.sessions.filter(({ at, kid: by }) => at === worker && by === kid).length >= ENOUGH;
      });
    await waitFor("each worker has created sessions", () => hasEnoughOf(oldKey));

    // Change the age of the standby key in Redis, so that the key may sign after `AHEAD_MS`.
    const operator = newOperator(redis);
    const stored = signingKeysKey(await numberOfEnvironment(operator, { name: first.environment, tag: "Customer" }));
    const [, ...rest] = String(await operator.hget(stored, newKey)).split(".");
    await operator.hset(stored, newKey, [Date.now() - PUBLISHED_MS + AHEAD_MS, ...rest].join("."));
    const { signingKeys } = await admin.rotateSigningKey({ environment });
    expect(signingKeys.find(({ id }) => id === newKey)?.state).toBe(State.STANDBY);
    second.isAway = true;
    second.server.signal("SIGKILL");
    await second.server.exited();
    second.server = await startSecond();
    second.isAway = false;
    await waitFor("each worker has created sessions with the next key", () => hasEnoughOf(newKey));
    expect([await keyIn(State.RETIRED), await keyIn(State.ACTIVE)]).toEqual([oldKey, newKey]);
    const { failures, resolved } = await load.end();
    expect(failures).toEqual([]);
    console.log(`${load.sessions.length} sessions, resolved ${resolved} times during a key rotation: 0 rejected`);

    // Each worker publishes the first key until all sessions that this key has signed have expired.
    for (const { server } of workers) {
      const keys = await publishedKeys(server);
      for (const session of load.sessions) await verify(session, keys);
    }
  });

  it.each(RUNTIMES)(
    "all workers on %s have the same signing keys after concurrent rotations and revocations",
    async (runtime) => {
      const server = await newServer({ runtime, redisUrl, env: { ...ADMIN_ENV, WORKERS: "2", PUBLIC_URL } });
      const post = async (path: string, body: object, token: string) => {
        const headers = { ...bearer(token), "content-type": "application/json" };
        // Each call opens a new connection, so the calls reach all workers.
        let answer = await http1(server.url, path, { method: "POST", headers, body: JSON.stringify(body) });
        // If several calls rotate the key at the same time, only one succeeds. The others fail with an error that asks
        // the caller to repeat the call.
        while (answer.body.includes("SIGNING_KEYS_CHANGED")) {
          answer = await http1(server.url, path, { method: "POST", headers, body: JSON.stringify(body) });
        }
        expect([path, answer.status, answer.status === 200 ? "" : answer.body.toString()]).toEqual([path, 200, ""]);
        return answer.json<{ session: string; active: boolean; signingKeys: { id: string; state: string }[] }>();
      };
      const environment = customerOf(server);
      const admin = (method: string, body: object) =>
        post(`/usergroup.admin.v1.AdminService/${method}`, { environment, ...body }, ADMIN_TOKEN);
      const make = () => post(CREATE, { user_group_id: "a", audience: AUDIENCE }, server.tokens.customer);
      const actives = (session: string) =>
        atOnce(AT_ONCE, async () => (await post(RESOLVE, { token: session }, server.tokens.customer)).active);
      await http1(server.url, "/api/user?user_group_id=a", { headers: bearer(server.tokens.customer) });

      for (let round = 0; round < ROUNDS; round++) {
        const before = await atOnce(AT_ONCE, make);
        await Promise.all([
          atOnce(AT_ONCE, (i) => admin("RotateSigningKey", { endSessions: i % 2 === 0 })),
          atOnce(AT_ONCE, () => admin("RevokeViewerSessions", { userGroupId: "a" })),
          atOnce(AT_ONCE, make),
        ]);
        for (const { session } of before) expect(new Set(await actives(session))).toEqual(new Set([false]));
        const reported = await atOnce(AT_ONCE, async () => (await admin("ListSigningKeys", {})).signingKeys);
        for (const keys of reported) expect(keys).toEqual(reported[0]);
        const states = reported[0]?.map(({ state }) => state).filter((state) => state !== "STATE_RETIRED");
        expect(states?.sort()).toEqual(["STATE_ACTIVE", "STATE_STANDBY"]);
        const { session } = await make();
        expect(reported[0]?.find(({ id }) => id === decodeProtectedHeader(session).kid)?.state).toBe("STATE_ACTIVE");
        expect(new Set(await actives(session))).toEqual(new Set([true]));
      }
    },
  );
});

it("a viewer session expires at the end of the grace period of its token, and the error reports the expiry", async () => {
  const server = await newServer();
  const { groups, viewers } = grpcClients(server);
  const { userGroup } = await groups.getUserGroup({ userGroupId: "brief" });
  const value = userGroup?.token ?? "";
  const previousTokenTtl = { seconds: BRIEF_S };
  await groups.rotateUserGroupToken({ group: { case: "currentToken", value }, previousTokenTtl });
  const { session } = await viewers.createViewerSession({ group: { case: "token", value }, audience: AUDIENCE });
  expect((await viewers.resolveViewer({ token: session })).providedId).toBe("brief");
  await waitFor("the session has expired", async () => !(await succeeds(viewers.resolveViewer({ token: session }))));
  expect((await failureOf(viewers.resolveViewer({ token: session }))).reason).toBe("VIEWER_SESSION_EXPIRED");
  const headers = { ...bearer(server.tokens.customer), "content-type": "application/json" };
  const answer = await http1(server.url, RESOLVE, {
    method: "POST",
    headers,
    body: JSON.stringify({ token: session }),
  });
  expect(answer.json()).toEqual({ active: false });
});

function atOnce<T>(times: number, act: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: times }, (_, i) => act(i)));
}

/**
 * Returns functions that call a worker. While the worker is down, a call waits. If the worker was killed during a call,
 * the call is repeated. A call is not repeated for any other reason.
 */
function callsTo({ tokens }: TestServer) {
  const agent = new Agent({ keepAlive: true });
  closeLater(() => agent.destroy());
  const headers = { ...bearer(tokens.customer), "content-type": "application/json" };

  async function post(worker: Worker, path: string, body: object) {
    for (;;) {
      await waitFor("the worker is running", () => !worker.isAway);
      const { server } = worker;
      try {
        return await http1(server.url, path, { method: "POST", headers, body: JSON.stringify(body), agent });
      } catch (error) {
        if (!worker.isAway && worker.server === server) throw error;
      }
    }
  }

  return {
    async make(at: Worker, userGroupId: string | undefined): Promise<Made> {
      const answer = await post(at, CREATE, { user_group_id: userGroupId, audience: AUDIENCE });
      if (answer.status !== 200) throw new Error(`not created: ${answer.body}`);
      const { session: text } = answer.json<{ session: string }>();
      return { text, at, kid: decodeProtectedHeader(text).kid };
    },

    async resolve(worker: Worker, { text }: Made): Promise<string> {
      const answer = await post(worker, RESOLVE, { token: text, audience: AUDIENCE });
      return answer.json<{ sub?: string }>().sub === decodeJwt(text).sub ? "resolved" : answer.body.toString();
    },
  };
}

type Calls = ReturnType<typeof callsTo> & { readonly workers: readonly Worker[] };

/**
 * Repeatedly creates sessions at every worker. Resolves each session at every worker. Verifies each session with keys
 * that were published before the session was created.
 */
function startLoad({ workers, make, resolve }: Calls, keys: JSONWebKeySet) {
  const sessions: Made[] = [];
  const wrong: string[] = [];
  let resolved = 0;

  async function check(worker: Worker, session: Made): Promise<void> {
    const outcome = await resolve(worker, session);
    if (outcome !== "resolved") wrong.push(outcome);
    resolved++;
    await verify(session, keys);
  }

  const anyOf = <T>(all: readonly T[]) => all[Math.floor(Math.random() * all.length)] as T;
  const calls = workers.flatMap((worker) => [
    async () => {
      const session = await make(worker, anyOf(GROUPS));
      sessions.push(session);
      await Promise.all(workers.map((each) => check(each, session)));
    },
    async () => {
      if (sessions.length > 0) await check(worker, anyOf(sessions));
    },
  ]);
  const repeated = repeat(calls);
  return {
    sessions,
    async end() {
      return { failures: [...(await repeated.end()), ...wrong], resolved };
    },
  };
}

async function publishedKeys({ url, environment }: TestServer): Promise<JSONWebKeySet> {
  const answer = await http1(url, `/e/${environment}/Customer/.well-known/jwks.json`);
  return answer.json<JSONWebKeySet>();
}

async function verify({ text }: Made, keys: JSONWebKeySet): Promise<void> {
  const options = { algorithms: ["ES256"], typ: "viewer+jwt", audience: AUDIENCE };
  const { payload } = await jwtVerify(text, createLocalJWKSet(keys), options);
  expect(payload.iss?.startsWith(PUBLIC_URL)).toBe(true);
}
