import { durationFromMs, type Timestamp, timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { LookupApiTokenResponse_Source as Source } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import {
  ADMIN_CLIENTS,
  ADMIN_ENV,
  ADMIN_TOKEN,
  adminOf,
  customerOf,
  endSoon,
  issueToken,
  suiteAdmins,
} from "./support/admin.ts";
import { newName } from "./support/contract/context.ts";
import { clientsOfRun } from "./support/matrix.ts";
import { describeWithRedis, newRedis, newServer, sharedServer } from "./support/opened.ts";
import { waitForSubscriptions } from "./support/operations.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";

const HOUR_MS = 3_600_000;
const millis = (time: Timestamp | undefined) => time && timestampDate(time).getTime();
const inFuture = (ms: number) => timestampFromMs(Date.now() + ms);
const REFUSED = { code: "Unauthenticated", reason: "API_TOKEN_UNKNOWN" };
const NOT_FOUND = { code: "NotFound", reason: "API_TOKEN_NOT_FOUND" };
const INVALID = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };

describe.each(RUNTIMES)("API tokens on %s", (runtime) => {
  const server = sharedServer({ runtime });

  describe.each(clientsOfRun(ADMIN_CLIENTS))("over $name", (options) => {
    const admin = suiteAdmins(server, options);

    it("GetCaller returns the id, role, environment and expiry time of the API token", async () => {
      const environment = { name: server.environment, tag: ApiEnvironmentTag.CUSTOMER };
      for (const role of ["resolve", "read", "manage", "admin"] as const) {
        const { token, id } = await issueToken(server, role);
        const caller = await admin(token).getCaller({});
        expect(caller).toMatchObject({ apiTokenId: id, displayName: `of role ${role}`, role, environment });
        expect(caller.expireTime).toBeUndefined();
      }
      const expireTime = inFuture(HOUR_MS);
      const values = { environment, displayName: "ending", role: Role.RESOLVE, expireTime };
      const { token } = await admin().createApiToken(values);
      expect(millis((await admin(token).getCaller({})).expireTime)).toBe(millis(expireTime));
      const named = { apiTokenId: "static-customer", displayName: "customer", role: "manage", environment };
      expect(await admin(server.tokens.customer).getCaller({})).toMatchObject(named);
      const root = await admin().getCaller({});
      expect(root).toMatchObject({ apiTokenId: "root", displayName: "root", role: "root" });
      expect(root.environment).toBeUndefined();
      expect(root.rotationGrace).toMatchObject({ seconds: 0n, nanos: 0 });
      expect(await failureOf(admin(newApiToken()).getCaller({}))).toEqual(REFUSED);
    });

    it("API tokens can be looked up by their secrets, and no response contains a secret", async () => {
      const { token, id } = await issueToken(server, "read");
      const issued = await admin().lookupApiToken({ token });
      expect(issued).toMatchObject({
        apiToken: { id, displayName: "of role read", role: Role.READ, creator: "root" },
        environment: customerOf(server),
        ...{ source: Source.ISSUED, replaced: false },
      });
      const fixed = await admin().lookupApiToken({ token: server.tokens.testing });
      expect(fixed).toMatchObject({
        apiToken: { id: "static-testing", displayName: "testing", role: Role.MANAGE },
        environment: { name: server.environment, tag: ApiEnvironmentTag.TESTING },
        source: Source.API_TOKENS,
      });
      const root = await admin().lookupApiToken({ token: ADMIN_TOKEN });
      expect(root).toMatchObject({ apiToken: { id: "root" }, source: Source.ADMIN_TOKEN });
      expect(root.environment).toBeUndefined();
      for (const answer of [issued, fixed, root]) {
        for (const text of [token, server.tokens.testing, ADMIN_TOKEN]) {
          expect(Object.values(answer.apiToken ?? {})).not.toContain(text);
        }
      }
      for (const unknown of [newApiToken(), token.slice(0, -1), "x".repeat(40), id]) {
        expect(await failureOf(admin().lookupApiToken({ token: unknown }))).toEqual(NOT_FOUND);
      }
      expect(await failureOf(admin().lookupApiToken({ token: newUserGroupToken() }))).toEqual(INVALID);
      const own = admin((await issueToken(server, "admin")).token);
      expect((await own.lookupApiToken({ token })).apiToken?.id).toBe(id);
      expect((await own.lookupApiToken({ token: server.tokens.customer })).source).toBe(Source.API_TOKENS);
      const other = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
      const foreign = await admin().createApiToken({ environment: other, displayName: "x", role: Role.READ });
      for (const hidden of [foreign.token, server.tokens.testing, ADMIN_TOKEN]) {
        expect(await failureOf(own.lookupApiToken({ token: hidden }))).toEqual(NOT_FOUND);
      }
    });

    it("a caller cannot create, extend or rotate an API token that expires later than the caller's own API token", async () => {
      const environment = customerOf(server);
      const expireTime = inFuture(HOUR_MS);
      const create = (by: ReturnType<typeof admin>, given: object) =>
        by.createApiToken({ displayName: "x", role: Role.ADMIN, ...given });
      const parent = await create(admin(), { environment, expireTime });
      const own = admin(parent.token);
      const id = parent.apiToken?.id ?? "";
      const child = await create(own, {});
      expect(millis(child.apiToken?.expireTime)).toBe(millis(expireTime));
      expect(child.apiToken?.creator).toBe(id);
      const sooner = inFuture(HOUR_MS / 2);
      const early = await create(own, { expireTime: sooner });
      expect(millis(early.apiToken?.expireTime)).toBe(millis(sooner));
      const later = inFuture(2 * HOUR_MS);
      expect(await failureOf(create(own, { expireTime: later }))).toEqual(INVALID);
      const updates = [
        { expireTime: later },
        { updateMask: { paths: ["expire_time"] } },
        { updateMask: { paths: ["*"] }, displayName: "x" },
      ];
      for (const apiTokenId of [id, child.apiToken?.id ?? ""]) {
        for (const update of updates) {
          expect(await failureOf(own.updateApiToken({ apiTokenId, ...update }))).toEqual(INVALID);
        }
      }
      // A rotation returns a new secret. If the caller could rotate a token that expires later than its own token, the
      // caller would keep access after its own token has expired.
      const lasting = await create(admin(), { environment });
      const outlives = { code: "PermissionDenied", reason: "API_TOKEN_OUTLIVES_CALLER" };
      expect(await failureOf(own.rotateApiToken({ apiTokenId: lasting.apiToken?.id ?? "" }))).toEqual(outlives);
      const previousTokenTtl = durationFromMs(60_000);
      const next = await own.rotateApiToken({ apiTokenId: id, previousTokenTtl });
      expect(millis(next.apiToken?.expireTime)).toBe(millis(expireTime));
      // `own` uses the previous secret. For this secret, GetCaller returns the end of the grace period as the expiry
      // time.
      expect(millis((await own.getCaller({})).expireTime)).toBe(millis(next.apiToken?.graceExpireTime));
      expect(await failureOf(own.rotateApiToken({ apiTokenId: id }))).toEqual(outlives);
    });

    it("API tokens can be rotated and updated with a mask, and the audit trail contains these changes", async () => {
      const environment = customerOf(server);
      const { token, id } = await issueToken(server, "admin");
      const update = (given: object) => admin().updateApiToken({ environment, apiTokenId: id, ...given });
      const expireTime = inFuture(HOUR_MS);
      const unchanged = { displayName: "of role admin", role: Role.ADMIN, id };
      expect((await update({})).apiToken).toMatchObject(unchanged);
      expect((await update({ displayName: "other" })).apiToken?.displayName).toBe("other");
      const paths = ["expire_time"];
      const ending = (await update({ expireTime, displayName: "ignored", updateMask: { paths } })).apiToken;
      expect(ending?.displayName).toBe("other");
      expect(millis(ending?.expireTime)).toBe(millis(expireTime));
      expect(millis((await admin(token).getCaller({})).expireTime)).toBe(millis(expireTime));
      const all = (await update({ displayName: "all", updateMask: { paths: ["*"] } })).apiToken;
      expect(all).toMatchObject({ ...unchanged, displayName: "all" });
      expect(all?.expireTime).toBeUndefined();

      const rotated = await admin(token).rotateApiToken({ apiTokenId: id, previousTokenTtl: durationFromMs(60_000) });
      expect(rotated.apiToken).toMatchObject({ ...unchanged, displayName: "all", rotator: id });
      expect((await admin().lookupApiToken({ token })).replaced).toBe(true);
      expect((await admin().lookupApiToken({ token: rotated.token })).replaced).toBe(false);
      const last = await admin().rotateApiToken({ environment, apiTokenId: id });
      for (const text of [token, rotated.token]) expect(await failureOf(admin(text).getCaller({}))).toEqual(REFUSED);
      expect((await admin(last.token).getCaller({})).displayName).toBe("all");

      const { auditEvents } = await admin().listAuditEvents({ environment, pageSize: 1000 });
      const events = auditEvents.filter(({ apiTokenId }) => apiTokenId === id);
      const reported = { apiTokenRole: "admin", apiTokenId: id };
      expect(events).toMatchObject([
        {
          ...reported,
          method: "RotateApiToken",
          changedFields: ["token"],
          actorId: "root",
          apiTokenDisplayName: "all",
        },
        { ...reported, method: "RotateApiToken", changedFields: ["token"], actorId: id, apiTokenDisplayName: "all" },
        { ...reported, method: "UpdateApiToken", changedFields: ["display_name", "expire_time"] },
        { ...reported, method: "UpdateApiToken", changedFields: ["expire_time"], apiTokenDisplayName: "other" },
        {
          ...reported,
          method: "UpdateApiToken",
          changedFields: ["display_name"],
          apiTokenDisplayName: "of role admin",
        },
        { ...reported, method: "CreateApiToken", changedFields: [], apiTokenDisplayName: "of role admin" },
      ]);
      const text = JSON.stringify(events, (_, value) => (typeof value === "bigint" ? String(value) : value));
      for (const secret of [token, rotated.token, last.token]) expect(text).not.toContain(secret.slice(4, 20));
      const unknown = { environment, apiTokenId: "0123456789abcdef" };
      expect(await failureOf(admin().updateApiToken({ ...unknown, displayName: "x" }))).toEqual(NOT_FOUND);
      expect(await failureOf(admin().rotateApiToken(unknown))).toEqual(NOT_FOUND);
    });

    it("API tokens can be listed by creator and role, and revoked together with all API tokens that they issued", async () => {
      // Use a new environment. For some seconds after a request with `revokeIssued`, no API token of the environment
      // can create API tokens.
      const own = { url: server.url, environment: newName() };
      const environment = customerOf(own);
      await admin().createEnvironment({ environment });
      const { token, id } = await issueToken(own, "admin");
      const child = await admin(token).createApiToken({ displayName: "child", role: Role.ADMIN });
      const grandchild = await admin(child.token).createApiToken({ displayName: "grandchild", role: Role.READ });
      const pages: string[][] = [];
      const request = { environment, creator: id, pageSize: 1 };
      expect((await admin().listApiTokens(request)).apiTokens.map((one) => one.displayName)).toEqual(["child"]);
      await admin(token).createApiToken({ displayName: "other child", role: Role.READ });
      for (let pageToken = ""; pages.length === 0 || pageToken !== ""; ) {
        const page = await admin().listApiTokens({ ...request, pageToken });
        pages.push(page.apiTokens.map((one) => one.displayName));
        pageToken = page.nextPageToken;
        if (pageToken === "") continue;
        const otherwise = { environment, pageSize: 1, pageToken };
        const invalid = { code: "InvalidArgument", reason: "INVALID_PAGE_TOKEN" };
        expect(await failureOf(admin().listApiTokens(otherwise))).toEqual(invalid);
      }
      expect(pages.flat().sort()).toEqual(["child", "other child"]);
      expect((await admin().listApiTokens({ ...request, pageSize: 9, role: Role.READ })).apiTokens.length).toBe(1);
      const revoked = await admin().revokeApiToken({ environment, apiTokenId: id, revokeIssued: true });
      expect(revoked.revokedCount).toBe(4);
      for (const text of [token, child.token, grandchild.token]) {
        expect(await failureOf(admin(text).getCaller({}))).toEqual(REFUSED);
      }
      const again = admin().revokeApiToken({ environment, apiTokenId: id, revokeIssued: true });
      expect(await failureOf(again)).toEqual(NOT_FOUND);
      const { auditEvents } = await admin().listAuditEvents({ environment, method: "RevokeApiToken", pageSize: 4 });
      const names = auditEvents.map(({ apiTokenDisplayName }) => apiTokenDisplayName);
      expect(names.sort()).toEqual(["child", "grandchild", "of role admin", "other child"]);
    });
  });

  it("an API token can be changed only in its own environment", async () => {
    const own = adminOf(server.url, (await issueToken(server, "admin")).token);
    const { id } = await issueToken(server, "read");
    const environment = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
    const foreign = { code: "PermissionDenied", reason: "OTHER_ENVIRONMENT" };
    expect(await failureOf(own.updateApiToken({ environment, apiTokenId: id, displayName: "x" }))).toEqual(foreign);
    expect(await failureOf(own.rotateApiToken({ environment, apiTokenId: id }))).toEqual(foreign);
    for (const call of [adminOf(server.url).updateApiToken, adminOf(server.url).rotateApiToken]) {
      expect(await failureOf(call({ environment, apiTokenId: id, displayName: "x" }))).toEqual(NOT_FOUND);
      expect(await failureOf(call({ apiTokenId: id, displayName: "x" }))).toEqual(INVALID);
    }
  });

  it("API tokens can be listed by the time of their last use", async () => {
    const environment = customerOf(server);
    const [used, unused] = [await issueToken(server, "resolve"), await issueToken(server, "resolve")];
    await adminOf(server.url, used.token).getCaller({});
    const list = async (filter: object) =>
      (await adminOf(server.url).listApiTokens({ environment, pageSize: 1000, ...filter })).apiTokens;
    const ids = async (filter: object) => (await list(filter)).map(({ id }) => id);
    const since = timestampFromMs(Date.now() - 60_000);
    await waitFor("the last use of the API token is recorded", async () =>
      (await ids({ usedSince: since })).includes(used.id),
    );
    expect(await ids({ usedSince: since })).not.toContain(unused.id);
    const uses = (await list({})).filter(({ id }) => [used.id, unused.id].includes(id)).map((one) => one.lastUseTime);
    expect(uses.map((time) => time !== undefined).sort()).toEqual([false, true]);
    expect(await ids({ unusedSince: since })).toContain(unused.id);
    expect(await ids({ unusedSince: since })).not.toContain(used.id);
  });
});

describeWithRedis("API tokens and several workers", () => {
  it("changes of API tokens take effect on other workers before API_TOKEN_CACHE has elapsed", async () => {
    const redis = await newRedis();
    const options = { redisUrl: redis.url, env: { ...ADMIN_ENV, API_TOKEN_CACHE: "24h" } };
    const one = await newServer(options);
    const two = await newServer({ ...options, like: one });
    const operator = new Redis(redis.url);
    await waitForSubscriptions(operator, 2);
    operator.disconnect();
    const environment = customerOf(one);
    const { token, id } = await issueToken(one, "manage");
    const caller = () => adminOf(two.url, token).getCaller({});
    expect((await caller()).displayName).toBe("of role manage");
    await adminOf(one.url).updateApiToken({ environment, apiTokenId: id, displayName: "new" });
    await waitFor("the other worker returns the new name", async () => (await caller()).displayName === "new");
    await adminOf(one.url).updateApiToken({ environment, apiTokenId: id, expireTime: inFuture(HOUR_MS) });
    await waitFor(
      "the other worker returns the new expiry time",
      async () => (await caller()).expireTime !== undefined,
    );
    const next = await adminOf(one.url).rotateApiToken({ environment, apiTokenId: id });
    await waitFor("the old secret is revoked", async () => !(await succeeds(caller())));
    expect(await failureOf(caller())).toEqual(REFUSED);
    expect((await failureOf(grpcClients(two, next.token).viewers.resolveViewer({ token: "x" }))).code).toBe("NotFound");
    await endSoon(one, id);
    const last = () => adminOf(two.url, next.token).getCaller({});
    await waitFor("the token has expired", async () => !(await succeeds(last())));
    expect((await failureOf(last())).code).toBe("Unauthenticated");
    expect((await adminOf(one.url).listApiTokens({ environment })).apiTokens).toEqual([]);
  });
});
