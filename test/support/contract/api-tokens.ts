import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { MAX_API_TOKENS, type NewApiToken, type RevocationListener } from "../../../src/domain/api-token.ts";
import type { Environment, ListedEnvironment } from "../../../src/domain/environment.ts";
import {
  ApiTokenChanged,
  ApiTokenNotFound,
  ApiTokenOutlivesCaller,
  EnvironmentNotFound,
  StoreUnavailable,
} from "../../../src/domain/errors.ts";
import { apiTokenDigest, environmentNumberOf, newApiToken, newResourceId } from "../../../src/domain/token.ts";
import { followRevocations } from "../../../src/store/api-tokens/revocation-feed.ts";
import { CREATE_API_TOKEN, REVOKE_API_TOKENS, ROTATE_API_TOKEN } from "../../../src/store/scripts.ts";
import { BY, testApiTokens, testEnvironments } from "../stores.ts";
import {
  type ContractContext,
  contents,
  failingAt,
  fails,
  heldUpAt,
  newEnvironment,
  newName,
  oneWins,
} from "./context.ts";

const VALUES: NewApiToken = { displayName: "Back end é{x}", role: "manage", expireTime: undefined };

function newListener() {
  const reported: string[] = [];
  return {
    reported,
    revoked: (digest: string) => void reported.push(digest),
    missed: () => void reported.push("missed"),
    environmentDeleted: ({ number }: Environment) => void reported.push(`deleted ${number}`),
    signingKeysChanged: () => {},
  };
}

/**
 * Sets the expiry time of a token to 300 ms from now. On a busy machine, the update may arrive more than 300 ms later.
 * The update then fails with ApiTokenNotFound, which this function ignores.
 */
export async function endsSoon(tokens: ReturnType<typeof testApiTokens>, environment: Environment, id: string) {
  const update = tokens.update(environment, id, { expireTime: Date.now() + 300 });
  await update.catch((error: unknown) => expect(error).toBeInstanceOf(ApiTokenNotFound));
}

export function apiTokenContract({ client, redis, isShared }: ContractContext): void {
  const environments = () => testEnvironments(client(1));
  const store = (listener: Pick<RevocationListener, "revoked"> = newListener(), worker = 0) =>
    testApiTokens(client(worker), listener);
  const create = async (
    given: Partial<NewApiToken> & { readonly creator?: string } = {},
    environment?: Environment,
  ) => {
    const made = environment ?? (await environments().create({ name: newName(), tag: "Customer" }));
    const { apiToken, token } = await store().create(made, { ...VALUES, ...given });
    const { createTime: _, deleteTime: __, ...own } = made as Partial<ListedEnvironment> & Environment;
    return { environment: own, apiToken, token, ...refOf(token) };
  };
  const listed = async (environment: Environment) =>
    (await store().list(environment, {}, { after: "", size: MAX_API_TOKENS })).items;
  const refOf = (token: string) => {
    const [number, digest] = [environmentNumberOf(token) ?? 0, apiTokenDigest(token)];
    return { digest, ref: { number, digest } };
  };
  const isValid = async (token: string) => (await store().find(refOf(token).ref)) !== undefined;

  describe("API tokens", () => {
    it("API tokens are found by every worker with all their values, and unknown tokens are not found", async () => {
      const expireTime = Date.now() + 3_600_000;
      const { environment, apiToken, digest, ref } = await create({ expireTime, role: "read", creator: "x" });
      expect(apiToken).toMatchObject({ ...VALUES, expireTime, role: "read", creator: "x", lastUseTime: undefined });
      expect(Math.abs(apiToken.createTime - Date.now())).toBeLessThan(60_000);
      for (const worker of [0, 1]) {
        const found = await store(newListener(), worker).find(ref);
        expect(found).toMatchObject({
          ...{ apiToken, environment, isReplaced: false },
          unusedForMs: Number.POSITIVE_INFINITY,
        });
        expect(found?.expiresInMs).toBeGreaterThan(3_000_000);
        expect(found?.expiresInMs).toBeLessThanOrEqual(3_660_000);
      }
      expect((await store().find((await create()).ref))?.expiresInMs).toBe(Number.POSITIVE_INFINITY);
      for (const unknown of [apiTokenDigest(newApiToken()), digest.slice(0, -1), ""]) {
        expect(await store().find({ ...ref, digest: unknown })).toBeUndefined();
      }
      expect(await store().find({ ...ref, number: ref.number + 1 })).toBeUndefined();
    });

    it("API tokens become invalid when their environment is deleted", async () => {
      const { environment, ref } = await create();
      for (let i = 0; i < 3; i++) await create({}, environment);
      const deleted = newListener();
      await testEnvironments(client(1), { listener: deleted }).delete(environment, true);
      for (const worker of [0, 1]) expect(await store(newListener(), worker).find(ref)).toBeUndefined();
      expect(deleted.reported).toEqual([`deleted ${environment.number}`]);
      const again = await environments().create(environment);
      expect(await store().find(ref)).toBeUndefined();
      expect(await listed(again)).toEqual([]);
    });

    it("an API token cannot be created in an environment that does not exist", async () => {
      const environment = { name: newName(), tag: undefined, number: 987_654 };
      await fails(store().create(environment, VALUES), EnvironmentNotFound);
      expect(await contents(redis(), environment)).toEqual({});
    });

    it("an API token is revoked by only one of several concurrent calls, and no worker finds the revoked token", async () => {
      const { environment, apiToken, digest, ref } = await create();
      const other = await create({}, environment);
      const listener = newListener();
      const revocations = [0, 1, 0, 1].map((worker) => store(listener, worker).revoke(environment, apiToken.id));
      await oneWins(revocations, ApiTokenNotFound);
      expect(new Set(listener.reported)).toEqual(new Set([digest]));
      for (const worker of [0, 1]) expect(await store(newListener(), worker).find(ref)).toBeUndefined();
      expect(await listed(environment)).toEqual([other.apiToken]);
      await fails(store().revoke(await newEnvironment(), other.apiToken.id), ApiTokenNotFound);
      await fails(store().revoke(environment, other.token), ApiTokenNotFound);
      expect(await store().find(other.ref)).toBeDefined();
    });

    it("API tokens are revoked together with all tokens that they issued, directly or indirectly", async () => {
      const top = await create({ role: "admin" });
      const { environment } = top;
      const child = await create({ role: "admin", creator: top.apiToken.id }, environment);
      const children = [child];
      for (let i = 0; i < 60; i++) children.push(await create({ creator: child.apiToken.id }, environment));
      const other = await create({}, environment);
      const rotated = await create({}, environment);
      const { token } = await store().rotate(environment, rotated.apiToken.id, { rotator: child.apiToken.id });
      const all = () => store().revoke(environment, top.apiToken.id, BY, { issued: true });
      expect(await all()).toBe(63);
      for (const one of [...children.map((each) => each.token), token]) expect(await isValid(one)).toBe(false);
      expect(await listed(environment)).toEqual([other.apiToken]);
      await fails(all(), ApiTokenNotFound);
    });

    it.each([
      [
        "was revoked before",
        (environment: Environment, id: string) =>
          store()
            .revoke(environment, id)
            .then(() => {}),
      ],
      [
        "has expired",
        async (environment: Environment, id: string) => {
          await endsSoon(store(), environment, id);
          await waitFor("the token has expired", async () =>
            (await listed(environment)).every((each) => each.id !== id),
          );
        },
      ],
    ])("issued API tokens can be revoked with the id of their issuer, even if the issuer %s", async (_, end) => {
      const top = await create({ role: "admin" });
      const { environment } = top;
      const middle = await create({ creator: top.apiToken.id }, environment);
      const other = await create({}, environment);
      const issue = async () => {
        const created = await create({ creator: middle.apiToken.id }, environment);
        const { apiToken } = await create({}, environment);
        const { token } = await store().rotate(environment, apiToken.id, { rotator: middle.apiToken.id });
        return [created.token, token, (await create({ creator: apiToken.id }, environment)).token];
      };
      const issued = await issue();
      await end(environment, middle.apiToken.id);
      for (const token of issued) expect(await isValid(token)).toBe(true);
      const { id } = middle.apiToken;
      expect(await store().revoke(environment, id, BY, { issued: true })).toBe(3);
      for (const token of issued) expect(await isValid(token)).toBe(false);
      expect((await listed(environment)).map(({ id }) => id).sort()).toEqual(
        [top.apiToken.id, other.apiToken.id].sort(),
      );
    });

    it("API tokens are revoked with their first issuer, even if all later issuers were revoked before", async () => {
      const top = await create({ role: "admin" });
      const { environment } = top;
      const other = await create({}, environment);
      const second = await create({ creator: top.apiToken.id }, environment);
      const third = await create({ creator: second.apiToken.id }, environment);
      const last = await create({ creator: third.apiToken.id }, environment);
      for (const each of [second, third]) await store().revoke(environment, each.apiToken.id);
      expect(await store().revoke(environment, top.apiToken.id, BY, { issued: true })).toBe(2);
      expect(await isValid(last.token)).toBe(false);
      expect(await listed(environment)).toEqual([other.apiToken]);
    });

    it("an API token is revoked with its first issuer, even at the end of a long chain of revoked issuers", async () => {
      const top = await create({ role: "admin" });
      const { environment } = top;
      let last = await create({ creator: top.apiToken.id }, environment);
      const second = last.apiToken.id;
      for (let i = 0; i < 130; i++) {
        const next = await create({ creator: last.apiToken.id }, environment);
        await store().revoke(environment, last.apiToken.id);
        last = next;
      }
      // For each token, the store keeps the ids of the last 100 issuers, and of all issuers that still exist. `second`
      // is an older issuer that was revoked, so the store no longer has its id. `top` still exists.
      await fails(store().revoke(environment, second, BY, { issued: true }), ApiTokenNotFound);
      expect(await store().revoke(environment, top.apiToken.id, BY, { issued: true })).toBe(2);
      expect(await isValid(last.token)).toBe(false);
    });

    it("API tokens are revoked with their first issuer, even if tokens in the chain are issued and revoked concurrently", async () => {
      for (let round = 0; round < 5; round++) {
        const top = await create({ role: "admin" });
        const { environment } = top;
        const middles = [];
        for (let i = 0; i < 4; i++) middles.push((await create({ creator: top.apiToken.id }, environment)).apiToken.id);
        const made: string[] = [];
        let revocation: Promise<unknown> | undefined;
        const issueUntilRevoked = async (creator: string, worker: number) => {
          for (let issuer = creator; ; ) {
            const values = { ...VALUES, creator: issuer };
            const { apiToken, token } = await store(newListener(), worker).create(environment, values);
            if (made.push(token) > 8)
              revocation ??= store(newListener(), 1).revoke(environment, top.apiToken.id, BY, { issued: true });
            // Each token issues the next token, and is revoked afterwards.
            if (issuer !== creator) await store(newListener(), worker + 1).revoke(environment, issuer);
            issuer = apiToken.id;
          }
        };
        const settled = await Promise.allSettled(middles.map((id, worker) => issueUntilRevoked(id, worker)));
        await revocation;
        for (const { reason } of settled as PromiseRejectedResult[]) {
          expect([ApiTokenChanged, ApiTokenNotFound]).toContain(reason?.constructor);
        }
        for (const token of made) expect(await isValid(token)).toBe(false);
        expect(await listed(environment)).toEqual([]);
      }
    });

    it("a revoked API token issues no valid tokens, even if the revocation is concurrent", async () => {
      for (let round = 0; round < 5; round++) {
        const { environment, apiToken } = await create();
        const made = Array.from({ length: 6 }, (_, i) =>
          store(newListener(), i).create(environment, { ...VALUES, creator: apiToken.id }),
        );
        const other = await create({}, environment);
        made.push(store().rotate(environment, other.apiToken.id, { rotator: apiToken.id }));
        const [answers] = await Promise.all([
          Promise.allSettled(made),
          store(newListener(), 1).revoke(environment, apiToken.id, BY, { issued: true }),
        ]);
        for (const answer of answers) {
          if (answer.status === "fulfilled") expect(await isValid(answer.value.token)).toBe(false);
          else expect([ApiTokenChanged, ApiTokenNotFound]).toContain(answer.reason.constructor);
        }
        const late = { ...VALUES, creator: apiToken.id };
        await fails(store().create(environment, late), ApiTokenChanged);
      }
    });

    it("an API token is not created by a delayed call if its environment was deleted and created again", async () => {
      const { environment } = await create();
      const again = async () => {
        await testEnvironments(client(1)).delete(environment, true);
        await environments().create(environment);
      };
      const late = testApiTokens(heldUpAt(client(), CREATE_API_TOKEN.name, again), newListener());
      await fails(late.create(environment, VALUES), EnvironmentNotFound);
      expect(await listed(environment)).toEqual([]);
    });

    it("API tokens are listed in pages, in order of their ids", async () => {
      const { environment, apiToken } = await create();
      const made = await Promise.all(Array.from({ length: 6 }, () => create({}, environment)));
      const expected = [apiToken, ...made.map((one) => one.apiToken)].sort((a, b) => (a.id < b.id ? -1 : 1));
      // A token with two valid secrets is listed once.
      const { apiToken: rotated } = await store().rotate(environment, expected[3]?.id ?? "", { graceMs: 60_000 });
      expected[3] = rotated;
      const first = await store().list(environment, {}, { after: "", size: 4 });
      expect(first.items).toEqual(expected.slice(0, 4));
      expect(first.next).toBe(expected[3]?.id);
      // `next` is the id of the last token on the page. This token may be revoked before the next page is read.
      await store().revoke(environment, first.next ?? "");
      expect(await store().list(environment, {}, { after: first.next ?? "", size: 3 })).toEqual({
        items: expected.slice(4),
        next: undefined,
      });
      expect((await store().list(environment, {}, { after: "", size: 6 })).next).toBeUndefined();
      expect(await store().list(await newEnvironment(), {}, { after: "", size: 9 })).toEqual({
        items: [],
        next: undefined,
      });
    });

    it("API tokens are filtered by creator, role and last use", async () => {
      const { environment, apiToken: one } = await create({ creator: "x", role: "read" });
      const { apiToken: two } = await create({ creator: "x", role: "admin" }, environment);
      const { apiToken: three } = await create({ role: "read" }, environment);
      await store().noteUse(environment, one.id);
      const ids = async (filter: Parameters<ReturnType<typeof store>["list"]>[1]) =>
        new Set((await store().list(environment, filter, { after: "", size: 9 })).items.map(({ id }) => id));
      expect(await ids({})).toEqual(new Set([one.id, two.id, three.id]));
      expect(await ids({ creator: "x" })).toEqual(new Set([one.id, two.id]));
      expect(await ids({ role: "read" })).toEqual(new Set([one.id, three.id]));
      expect(await ids({ creator: "x", role: "read" })).toEqual(new Set([one.id]));
      expect(await ids({ usedSince: Date.now() - 60_000 })).toEqual(new Set([one.id]));
      expect(await ids({ unusedSince: Date.now() - 60_000 })).toEqual(new Set([two.id, three.id]));
      expect(await ids({ usedSince: Date.now() + 60_000 })).toEqual(new Set());
      expect(await ids({ unusedSince: Date.now() + 60_000 })).toEqual(new Set([one.id, two.id, three.id]));
    });

    it("API tokens can be updated, and expire at their new expiry time", async () => {
      const { environment, apiToken, digest, ref } = await create();
      const listener = newListener();
      const expireTime = Date.now() + 600_000;
      const renamed = { ...apiToken, displayName: "other" };
      const update = (change: Parameters<ReturnType<typeof store>["update"]>[2]) =>
        store(listener).update(environment, apiToken.id, change);
      expect(await update({ displayName: "other" })).toEqual(renamed);
      expect(await update({ expireTime })).toEqual({ ...renamed, expireTime });
      expect(listener.reported).toEqual([digest, digest]);
      expect(await update({ displayName: "other", expireTime })).toEqual({ ...renamed, expireTime });
      expect(listener.reported.length).toBe(2);
      expect((await store().find(ref))?.apiToken).toEqual({ ...renamed, expireTime });
      expect(await update({ expireTime: null })).toEqual(renamed);
      await endsSoon(store(), environment, apiToken.id);
      await waitFor("the token has expired", async () => (await store().find(ref)) === undefined);
      await fails(update({ displayName: "x" }), ApiTokenNotFound);
      expect(await listed(environment)).toEqual([]);
    });

    it("API tokens keep their id in a rotation, and the old secret expires immediately or after its grace period", async () => {
      const { environment, apiToken, token } = await create({ expireTime: Date.now() + 3_600_000 });
      const listener = newListener();
      const rotate = (graceMs: number) => store(listener).rotate(environment, apiToken.id, { graceMs, rotator: "r" });
      const second = await rotate(600_000);
      const { tokenCreateTime, graceExpireTime = 0 } = second.apiToken;
      expect(second.apiToken).toEqual({ ...apiToken, rotator: "r", tokenCreateTime, graceExpireTime });
      expect(graceExpireTime).toBe(tokenCreateTime + 600_000);
      expect(listener.reported).toContain(apiTokenDigest(token));
      expect(await listed(environment)).toEqual([second.apiToken]);
      expect(await store().find(refOf(token).ref)).toMatchObject({
        isReplaced: true,
        apiToken: { id: apiToken.id, expireTime: graceExpireTime },
      });
      expect(await store().find(refOf(second.token).ref)).toMatchObject({ isReplaced: false });
      // If the response to the first rotation is lost, the caller still has only the first secret. The caller can
      // rotate the token again, because the first secret stays valid until the end of its grace period.
      const third = await rotate(700_000);
      for (const one of [token, second.token, third.token]) expect(await isValid(one)).toBe(true);
      expect((await store().find(refOf(token).ref))?.apiToken.expireTime).toBe(graceExpireTime);
      // An update of the token does not extend the grace period of an old secret. The next rotation can end this grace
      // period early.
      await store().update(environment, apiToken.id, { expireTime: null, displayName: "new" });
      expect((await store().find(refOf(token).ref))?.apiToken).toMatchObject({
        displayName: "new",
        expireTime: graceExpireTime,
      });
      const fourth = await rotate(1000);
      expect([await isValid(token), await isValid(fourth.token)]).toEqual([false, true]);
      await waitFor("the grace period is over", async () => !(await isValid(third.token)));
      expect(await isValid(second.token)).toBe(false);
      const fifth = await rotate(0);
      expect(await isValid(fourth.token)).toBe(false);
      expect(fifth.apiToken).toMatchObject({ id: apiToken.id, expireTime: undefined, graceExpireTime: undefined });
      await rotate(600_000);
      await store().revoke(environment, apiToken.id);
      expect(await isValid(fifth.token)).toBe(false);
      await fails(rotate(0), ApiTokenNotFound);
    });

    it("an API token cannot be rotated by an API token that expires earlier", async () => {
      const expireTime = Date.now() + 3_600_000;
      const { environment, apiToken, token } = await create({ expireTime });
      const rotate = (notBeyond: number) => store().rotate(environment, apiToken.id, { notBeyond });
      await fails(rotate(expireTime - 1), ApiTokenOutlivesCaller);
      expect(await isValid(token)).toBe(true);
      await rotate(expireTime);
      const lasting = await create();
      await fails(
        store().rotate(lasting.environment, lasting.apiToken.id, { notBeyond: expireTime }),
        ApiTokenOutlivesCaller,
      );
    });

    it("an API token has at most one valid secret after concurrent rotations, updates and revocations", async () => {
      for (let round = 0; round < 8; round++) {
        const { environment, apiToken, token } = await create({ expireTime: Date.now() + 3_600_000 });
        const expireTime = Date.now() + 600_000;
        const isRevoked = round % 2 === 1;
        const [answers, [updated]] = await Promise.all([
          Promise.allSettled([0, 1, 0].map((worker) => store(newListener(), worker).rotate(environment, apiToken.id))),
          Promise.allSettled([store(newListener(), 1).update(environment, apiToken.id, { expireTime })]),
          ...(isRevoked ? [store().revoke(environment, apiToken.id)] : []),
        ]);
        const made = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value.token] : []));
        for (const answer of answers) {
          if (answer.status === "fulfilled") continue;
          const expected = isRevoked ? [ApiTokenChanged, ApiTokenNotFound] : [ApiTokenChanged];
          expect(expected.some((type) => answer.reason instanceof type)).toBe(true);
        }
        const valid = [];
        for (const one of [token, ...made]) if (await isValid(one)) valid.push(one);
        expect(valid.length).toBe(isRevoked ? 0 : 1);
        if (!isRevoked) {
          expect(updated?.status).toBe("fulfilled");
          expect((await listed(environment))[0]?.expireTime).toBe(expireTime);
        }
      }
    });

    it("API tokens and all other stored data stay unchanged if a worker exits before its change", async () => {
      const { environment, apiToken, token } = await create();
      const before = await contents(redis(), environment);
      const failing = (script: { readonly name: string }) => testApiTokens(failingAt(client(), script.name));
      await fails(failing(CREATE_API_TOKEN).create(environment, VALUES), StoreUnavailable);
      await fails(failing(ROTATE_API_TOKEN).rotate(environment, apiToken.id), StoreUnavailable);
      await fails(failing(REVOKE_API_TOKENS).revoke(environment, apiToken.id), StoreUnavailable);
      expect(await contents(redis(), environment)).toEqual(before);
      expect(await isValid(token)).toBe(true);
    });

    it("an API token is not rotated by a delayed call that reaches the store after the revocation", async () => {
      const { environment, apiToken } = await create();
      const revoke = () => store().revoke(environment, apiToken.id);
      const late = testApiTokens(heldUpAt(client(), ROTATE_API_TOKEN.name, revoke));
      await fails(late.rotate(environment, apiToken.id), ApiTokenNotFound);
      await fails(store().revoke(environment, apiToken.id), ApiTokenNotFound);
      expect(await listed(environment)).toEqual([]);
    });

    it("API tokens are revoked in steps after their issuer; between two steps, even after an error, no API token can issue tokens", async () => {
      const { environment, apiToken } = await create({ role: "admin" });
      const other = await create({}, environment);
      const issued = await create({ creator: apiToken.id }, environment);
      for (let i = 0; i < 120; i++) await create({ creator: apiToken.id }, environment);
      const lengths: number[] = [];
      const beforeStep = async () => {
        lengths.push((await listed(environment)).length);
        if (lengths.length === 1) return;
        // A second revocation begins and ends here. The first revocation is still in progress, so API tokens must not
        // be able to issue tokens.
        await fails(store().revoke(environment, newResourceId(), BY, { issued: true }), ApiTokenNotFound);
        for (const { id } of [apiToken, issued.apiToken, other.apiToken]) {
          await fails(create({ creator: id }, environment), ApiTokenChanged);
          await fails(store().rotate(environment, other.apiToken.id, { rotator: id }), ApiTokenChanged);
        }
        await store().rotate(environment, other.apiToken.id);
        if (lengths.length === 3) throw new StoreUnavailable(undefined, "not_made");
      };
      const inSteps = testApiTokens(heldUpAt(client(), REVOKE_API_TOKENS.name, beforeStep));
      const revoke = () => inSteps.revoke(environment, apiToken.id, BY, { issued: true });
      await fails(revoke(), StoreUnavailable);
      expect(await revoke()).toBe(71);
      expect(lengths).toEqual([123, 122, 72, 72, 72, 22]);
      expect((await listed(environment)).map(({ id }) => id)).toEqual([other.apiToken.id]);
      const issue = () => create({ creator: other.apiToken.id }, environment);
      await fails(issue(), ApiTokenChanged);
      await waitFor("API tokens can issue tokens again", () =>
        issue().then(
          () => true,
          (error: unknown) => {
            expect(error).toBeInstanceOf(ApiTokenChanged);
            return false;
          },
        ),
      );
    });

    // Listeners receive revocations through a subscription. The embedded store has no subscriptions.
    if (!isShared) return;
    it("revocations of API tokens are reported to a listener of another worker", async () => {
      const listener = newListener();
      const end = followRevocations(client(1), { ...listener, refused: (error) => expect.fail(error.message) });
      try {
        await waitFor("the listener has subscribed", () => listener.reported.includes("missed"));
        for (let i = 0; i < 5; i++) {
          const { environment, apiToken, digest } = await create();
          await store().revoke(environment, apiToken.id);
          await waitFor("the revocation is reported", () => listener.reported.includes(digest));
        }
        const { environment } = await create();
        await environments().delete(environment, true);
        await waitFor("the deletion is reported", () => listener.reported.includes(`deleted ${environment.number}`));
      } finally {
        end();
      }
    });
  });
}
