import { describe, expect, it } from "vitest";
import { newUserGroupToken } from "../src/domain/token.ts";
import { failureOf, type GroupResult } from "./support/clients.ts";
import { describeMatrix, newId } from "./support/matrix.ts";

const DAY_MS = 86_400_000;

/** A well-formed token that no group has. */
const UNKNOWN_TOKEN = newUserGroupToken();

describeMatrix((place) => {
  async function created(): Promise<GroupResult> {
    const { reference, as } = place;
    const input = { userGroupId: newId(), name: "Acme", mapping: { s: "d" }, properties: { a: [1] } };
    return (await reference.getUserGroup(input, as.customer)).group;
  }

  const resolve = async (token: string) => (await place.client.resolveViewer({ token }, place.as.customer)).viewer;

  async function expectEnded(token: string): Promise<void> {
    const { fields } = await failureOf(resolve(token));
    expect(fields).toMatchObject({ code: "not_found", reason: "TOKEN_NOT_FOUND", violations: [] });
  }

  describe("RotateUserGroupToken", () => {
    it.each(["token", "id"])("rotation by %s returns a new token and revokes the old token immediately", async (by) => {
      const { client, reference, as } = place;
      const before = await created();
      const target = by === "token" ? { currentToken: before.token } : { userGroupId: before.providedId };
      const { group } = await client.rotateUserGroupToken(target, as.customer);
      expect(group).toMatchObject({ teamId: before.teamId, name: "Acme", providedId: before.providedId });
      expect(group.tag).toBe("Customer");
      expect(group.token).toMatch(/^ugt_[0-9A-Za-z]{38}$/);
      expect(group.token).not.toBe(before.token);
      const after = (await reference.getUserGroup({ userGroupId: before.providedId }, as.customer)).group;
      const { token, etag, updateTime, tokenCreateTime } = after;
      expect(after).toEqual({ ...before, token, etag, updateTime, tokenCreateTime });
      expect(token).toBe(group.token);
      expect(etag).not.toBe(before.etag);
      expect(etag).toBe(group.etag);
      await expectEnded(before.token);
      expect(await resolve(token)).toMatchObject({ providedId: before.providedId, expireTime: undefined });
    });

    it("rejects outdated, unknown and malformed tokens, and unknown ids", async () => {
      const { client, as } = place;
      const { token, providedId } = await created();
      await client.rotateUserGroupToken({ userGroupId: providedId }, as.customer);
      for (const currentToken of [token, UNKNOWN_TOKEN, `${token.slice(0, -1)}!`, "no token of ours"]) {
        const { fields } = await failureOf(client.rotateUserGroupToken({ currentToken }, as.customer));
        expect(fields).toMatchObject({ code: "not_found", reason: "TOKEN_NOT_FOUND", violations: [] });
      }
      const failure = await failureOf(client.rotateUserGroupToken({ userGroupId: newId() }, as.customer));
      expect(failure.fields).toMatchObject({ code: "not_found", reason: "USER_GROUP_NOT_FOUND", violations: [] });
    });

    it("a rotation with previous_token_ttl keeps the old token valid for the grace period, but not for rotations", async () => {
      const { client, as } = place;
      const { token: old, teamId } = await created();
      const started = Date.now();
      const rotation = { currentToken: old, previousTokenTtl: "86400s" };
      const { token: current } = (await client.rotateUserGroupToken(rotation, as.customer)).group;
      const inGrace = await resolve(old);
      expect(inGrace.teamId).toBe(teamId);
      expect(inGrace.expireTime).toBeGreaterThanOrEqual(started + DAY_MS);
      expect(inGrace.expireTime).toBeLessThanOrEqual(Date.now() + DAY_MS);
      expect(await resolve(current)).toEqual({ ...inGrace, expireTime: undefined });
      const { fields } = await failureOf(client.rotateUserGroupToken({ currentToken: old }, as.customer));
      expect(fields).toMatchObject({ code: "not_found", reason: "TOKEN_NOT_FOUND" });
      // The rejected rotation has revoked neither the old token nor the new token.
      await resolve(old);
      await client.rotateUserGroupToken({ currentToken: current, previousTokenTtl: "60.5s" }, as.customer);
      const { expireTime } = await resolve(current);
      expect(expireTime).toBeGreaterThanOrEqual(started + 60_500);
      expect(expireTime).toBeLessThanOrEqual(Date.now() + 60_500);
    });
  });

  describe("the request id of a rotation", () => {
    it.each(["token", "id"])(
      "a retry by %s with the same request id returns the new token of the first call and the current fields of the group",
      async (by) => {
        const { client, reference, as } = place;
        const { token, providedId } = await created();
        const target = by === "token" ? { currentToken: token } : { userGroupId: providedId };
        const rotation = { ...target, requestId: `retry-${token}`, previousTokenTtl: "60s" };
        const first = await client.rotateUserGroupToken(rotation, as.customer);
        await reference.updateUserGroup({ userGroupId: providedId, name: "Changed since" }, as.customer);
        const second = await client.rotateUserGroupToken(rotation, as.customer);
        const { group } = await reference.getUserGroup({ userGroupId: providedId }, as.customer);
        expect(group).toMatchObject({ token: first.group.token, name: "Changed since" });
        // Not every protocol returns the etag and the update time. If the response contains them, they are current.
        const { etag, updateTime } = first.group;
        expect(second.group).toEqual({
          ...first.group,
          name: "Changed since",
          ...(etag !== undefined && { etag: group.etag }),
          ...(updateTime !== undefined && { updateTime: group.updateTime }),
        });
        expect((await resolve(token)).expireTime).toBeDefined();
      },
    );

    it("the request id of a retry is rejected if the other parameters differ", async () => {
      const { client, as } = place;
      const { token: currentToken, providedId } = await created();
      const requestId = `reuse-${currentToken}`;
      const { group } = await client.rotateUserGroupToken({ currentToken, requestId }, as.customer);
      const other = { currentToken, requestId, previousTokenTtl: "60s" };
      const { fields } = await failureOf(client.rotateUserGroupToken(other, as.customer));
      expect(fields).toMatchObject({
        code: "invalid_argument",
        reason: "REQUEST_ID_REUSED",
        violations: [{ field: "request_id" }],
      });
      expect((await resolve(group.token)).providedId).toBe(providedId);
    });
  });

  describe("ResolveViewer", () => {
    it("returns the current group of a token", async () => {
      const { reference, as } = place;
      const { token, teamId, providedId: userGroupId } = await created();
      const group = { teamId, name: "Acme", providedId: userGroupId, mapping: { s: "d" }, properties: { a: [1] } };
      expect(await resolve(token)).toEqual({ ...group, tag: "Customer", expireTime: undefined });
      await reference.updateUserGroup({ userGroupId, name: "New", updateMask: "name,properties" }, as.customer);
      expect(await resolve(token)).toMatchObject({ name: "New", properties: null, mapping: { s: "d" } });
    });

    it("rejects an unknown token", async () => {
      for (const token of [UNKNOWN_TOKEN, "é".repeat(1024)]) await expectEnded(token);
    });
  });
});
