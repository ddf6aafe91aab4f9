import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { HOUR_MS } from "../../../src/domain/durations.ts";
import { TokenNotFound, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { newApiToken, newUserGroupToken } from "../../../src/domain/token.ts";
import { byId, byToken, type ContractContext, contents, fails, newEnvironment, newGroup, oneWins } from "./context.ts";

export function rotateContract(context: ContractContext): void {
  describe.each(["token", "id"] as const)("rotate by %s", (by) => eachWay(context, by));
  describe("rotate", () => {
    races(context);
    refusals(context);
  });
}

function eachWay({ store }: ContractContext, by: "token" | "id"): void {
  const rotation = (token: string, graceMs = 0) =>
    by === "token" ? byToken(token, { graceMs }) : byId("a", { graceMs });
  const create = async () => {
    const environment = await newEnvironment({ tag: "Testing" });
    const given = newGroup("a", { name: "Acme", mapping: { s: "d" }, properties: { p: 1 } });
    const { group } = await store().getOrCreate(environment, given);
    await waitFor("the clock advances", () => Date.now() > group.createTime);
    return { environment, group };
  };

  it("creates a new token and keeps the other fields", async () => {
    const { environment, group } = await create();
    const rotated = await store().rotate(environment, rotation(group.token));
    const { token, etag, updateTime, tokenCreateTime } = rotated;
    expect(rotated).toEqual({ ...group, token, etag, updateTime, tokenCreateTime });
    expect(token).toMatch(/^ugt_[0-9A-Za-z]{38}$/);
    expect(token).not.toBe(group.token);
    expect(etag).not.toBe(group.etag);
    expect(tokenCreateTime).toBeGreaterThan(group.tokenCreateTime);
    expect(updateTime).toBe(tokenCreateTime);
    expect((await store({ worker: 1 }).getOrCreate(environment, newGroup("a"))).group).toEqual(rotated);
  });

  it("immediately revokes the old token on every worker", async () => {
    const { environment, group } = await create();
    expect(await store().resolve(environment, group.token)).toMatchObject({ providedId: "a" });
    const { token } = await store().rotate(environment, rotation(group.token));
    for (const worker of [0, 1]) {
      await fails(store({ worker }).resolve(environment, group.token), TokenNotFound);
      expect((await store({ worker }).resolve(environment, token)).tokenExpireTime).toBeUndefined();
    }
  });

  it("keeps the old token valid until the end of its grace period", async () => {
    const { environment, group } = await create();
    const before = Date.now();
    const { token: second, tokenCreateTime } = await store().rotate(environment, rotation(group.token, HOUR_MS));
    const inGrace = await store().resolve(environment, group.token);
    expect(inGrace.tokenExpireTime).toBe(tokenCreateTime + HOUR_MS);
    expect(tokenCreateTime).toBeGreaterThanOrEqual(before);
    // The second grace period lasts only 400 ms, so the test can wait for its end. Even on a busy machine, the service
    // must not reject the token before this end.
    const { token: third, tokenCreateTime: since } = await store().rotate(environment, rotation(second, 400));
    await waitFor("the grace period is over", () =>
      store()
        .resolve(environment, second)
        .then(
          () => false,
          (error) => error instanceof TokenNotFound,
        ),
    );
    expect(Date.now()).toBeGreaterThanOrEqual(since + 400 - 1);
    expect((await store().resolve(environment, third)).tokenExpireTime).toBeUndefined();
  });

  it("leaves at most one old token valid; a rotation without a grace period leaves no old token valid", async () => {
    const { environment, group } = await create();
    const second = await store().rotate(environment, rotation(group.token, HOUR_MS));
    const third = await store().rotate(environment, rotation(second.token, HOUR_MS));
    await fails(store().resolve(environment, group.token), TokenNotFound);
    expect((await store().resolve(environment, second.token)).tokenExpireTime).toBeGreaterThan(Date.now());
    const fourth = await store().rotate(environment, rotation(third.token));
    for (const { token } of [group, second, third]) await fails(store().resolve(environment, token), TokenNotFound);
    expect((await store().resolve(environment, fourth.token)).providedId).toBe("a");
  });

  it("lets the bearers of the old and of the new token read later changes", async () => {
    const { environment, group } = await create();
    const { token } = await store().rotate(environment, rotation(group.token, HOUR_MS));
    await store().update(environment, "a", { name: "Later", properties: null });
    for (const bearer of [token, group.token]) {
      expect(await store().resolve(environment, bearer)).toMatchObject({ name: "Later", properties: undefined });
    }
  });
}

function races({ store, many, withGroup }: ContractContext): void {
  it("succeeds for only one of 100 concurrent rotations by the same token, with or without a grace period", async () => {
    for (const graceMs of [0, HOUR_MS]) {
      const { environment, group } = await withGroup();
      const calls = Array.from({ length: many(100) }, (_, i) =>
        store({ worker: i % 2 }).rotate(environment, byToken(group.token, { graceMs })),
      );
      const won = await oneWins(calls, TokenNotFound);
      expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(won);
    }
  });

  it("succeeds for each of several concurrent rotations by id, and only the last token stays valid", async () => {
    const { environment } = await withGroup();
    const rotated = await Promise.all(
      Array.from({ length: 20 }, (_, worker) => store({ worker }).rotate(environment, byId("a"))),
    );
    const { group } = await store().getOrCreate(environment, newGroup("a"));
    const tokens = rotated.map(({ token }) => token);
    expect(new Set(tokens).size).toBe(20);
    expect(tokens).toContain(group.token);
    for (const token of tokens) {
      if (token !== group.token) await fails(store().resolve(environment, token), TokenNotFound);
    }
  });
}

function refusals({ store, redis, withGroup }: ContractContext): void {
  it("rejects a token in its grace period, and changes nothing", async () => {
    const { environment, group } = await withGroup();
    const current = await store().rotate(environment, byToken(group.token, { graceMs: HOUR_MS }));
    const before = await contents(redis(), environment);
    await fails(store().rotate(environment, byToken(group.token)), TokenNotFound);
    expect(await contents(redis(), environment)).toEqual(before);
    expect((await store().resolve(environment, current.token)).providedId).toBe("a");
    expect((await store().resolve(environment, group.token)).providedId).toBe("a");
  });

  it.each([
    ["unknown", newUserGroupToken()],
    ["truncated", newUserGroupToken().slice(0, -1)],
    ["an API token", newApiToken()],
    ["of another format", "imported-token-0001"],
    ["empty", ""],
    ["__proto__", "__proto__"],
  ])("fails, like resolve, for a token that is %s", async (_, token) => {
    const { environment } = await withGroup();
    const before = await contents(redis(), environment);
    await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    await fails(store().resolve(environment, token), TokenNotFound);
    expect(await contents(redis(), environment)).toEqual(before);
  });

  it("fails for an unknown id, and creates no group", async () => {
    const environment = await newEnvironment();
    const before = await contents(redis(), environment);
    await fails(store().rotate(environment, byId("a")), UserGroupNotFound);
    expect(await contents(redis(), environment)).toEqual(before);
  });
}
