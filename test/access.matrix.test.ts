import { describe, expect, it } from "vitest";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import { type CallHeaders, failureOf, type RotateInput, type ServiceClient } from "./support/clients.ts";
import { describeMatrix, newId } from "./support/matrix.ts";

const CALLS: readonly (readonly [string, (client: ServiceClient, headers: CallHeaders) => Promise<unknown>])[] = [
  ["GetUserGroup", (client, headers) => client.getUserGroup({ userGroupId: "refused" }, headers)],
  ["UpdateUserGroup", (client, headers) => client.updateUserGroup({ userGroupId: "refused", name: "a" }, headers)],
  ["RotateUserGroupToken", (client, headers) => client.rotateUserGroupToken({ userGroupId: "refused" }, headers)],
  ["ResolveViewer", (client, headers) => client.resolveViewer({ token: newUserGroupToken() }, headers)],
];

describeMatrix((place, row) => {
  describe("without a valid API token, the service", () => {
    it.each(CALLS)("rejects %s", async (name, call) => {
      const { client, server, as } = place;
      const { customer } = server.tokens;
      const cases: readonly (readonly [CallHeaders, string])[] = [
        [{}, "MISSING"],
        [{ authorization: customer }, "MALFORMED"],
        [{ authorization: `Basic ${customer}` }, "MALFORMED"],
        [{ authorization: "Token" }, "MALFORMED"],
        [{ authorization: `Token ${customer} ${customer}` }, "MALFORMED"],
        [{ authorization: `Token ${customer}x` }, "UNKNOWN"],
        [{ authorization: `Token ${customer.slice(0, -1)}` }, "UNKNOWN"],
        [{ authorization: `Token ${newApiToken()}` }, "UNKNOWN"],
        [{ "explo-authorization": `Token ${newApiToken()}` }, "UNKNOWN"],
        // If the first header is invalid, the service does not try the valid second header.
        [{ authorization: "Token unknown", "explo-authorization": `Token ${customer}` }, "UNKNOWN"],
      ];
      for (const [headers, reason] of cases) {
        const { fields, challenge, status } = await failureOf(call(client, headers));
        expect(fields, JSON.stringify(headers)).toMatchObject({
          code: "unauthenticated",
          reason: `API_TOKEN_${reason}`,
          violations: [],
        });
        expect(fields.message).not.toContain(customer.slice(0, 8));
        expect(challenge).toBe('Token realm="user-group-service"');
        if (row.protocol === "rest") expect(status).toBe(401);
      }
      if (name === "ResolveViewer") return;
      const updated = client.updateUserGroup({ userGroupId: "refused", name: "a" }, as.customer);
      expect((await failureOf(updated)).fields.code).toBe("not_found");
    });

    it("rejects a user group token as an API token, and an API token as a user group token", async () => {
      const { client, reference, server, as } = place;
      const { group } = await reference.getUserGroup({ userGroupId: newId() }, as.customer);
      for (const [, call] of CALLS) {
        const { fields } = await failureOf(call(client, { authorization: `Token ${group.token}` }));
        expect(fields).toMatchObject({ code: "unauthenticated", reason: "API_TOKEN_UNKNOWN" });
      }
      const { fields } = await failureOf(client.resolveViewer({ token: server.tokens.customer }, as.customer));
      expect(fields).toMatchObject({ code: "not_found", reason: "TOKEN_NOT_FOUND" });
    });

    it("reports only the missing API token, even if the request has other errors", async () => {
      const { client } = place;
      const { fields } = await failureOf(client.getUserGroup({ userGroupId: "" }, {}));
      expect(fields).toMatchObject({ code: "unauthenticated", violations: [] });
    });
  });

  it("the service accepts an API token with every scheme and header that clients use", async () => {
    const { client, server } = place;
    const userGroupId = newId();
    const { customer } = server.tokens;
    const accepted: CallHeaders[] = [
      { authorization: `Token ${customer}` },
      { authorization: `token ${customer}` },
      { authorization: `TOKEN  ${customer}` },
      { authorization: `Bearer ${customer}` },
      { authorization: `bEARER ${customer}` },
      { "explo-authorization": `Token ${customer}` },
      { "explo-authorization": `Bearer ${customer}` },
      { authorization: `Token ${customer}`, "explo-authorization": "Token unknown" },
    ];
    for (const headers of accepted) {
      expect((await client.getUserGroup({ userGroupId }, headers)).group.providedId).toBe(userGroupId);
    }
  });

  describe("environments", () => {
    it("two environments can use the same id for different groups", async () => {
      const { client, reference, as } = place;
      const userGroupId = newId();
      const tokens = new Set<string>();
      for (const [headers, name, tag] of [
        [as.customer, "one", "Customer"],
        [as.testing, "two", "Testing"],
        [as.untagged, "three", null],
      ] as const) {
        const { group, newUserGroup } = await client.getUserGroup({ userGroupId, name }, headers);
        expect(newUserGroup).toBe(true);
        tokens.add(group.token);
        const { viewer } = await client.resolveViewer({ token: group.token }, headers);
        expect(viewer).toMatchObject({ name, tag });
        expect((await client.rotateUserGroupToken({ userGroupId, previousTokenTtl: "60s" }, headers)).group.tag).toBe(
          tag,
        );
        expect((await client.updateUserGroup({ userGroupId, mapping: { name } }, headers)).group.tag).toBe(tag);
      }
      expect(tokens.size).toBe(3);
      const { group } = await reference.getUserGroup({ userGroupId }, as.customer);
      expect(group).toMatchObject({ name: "one", mapping: { name: "one" } });
    });

    it("an API token cannot read or change the groups and tokens of another environment", async () => {
      const { client, reference, as } = place;
      const userGroupId = newId();
      const { group } = await reference.getUserGroup({ userGroupId, name: "Mine" }, as.customer);
      const nobodys = newUserGroupToken();
      for (const headers of [as.testing, as.untagged]) {
        const refusal = async (call: Promise<unknown>) => (await failureOf(call)).fields;
        const update = (id: string) => client.updateUserGroup({ userGroupId: id, name: "Stolen" }, headers);
        expect(await refusal(update(userGroupId))).toEqual(await refusal(update(newId())));
        const rotate = (target: RotateInput) => client.rotateUserGroupToken(target, headers);
        expect((await refusal(rotate({ userGroupId }))).reason).toBe("USER_GROUP_NOT_FOUND");
        const byToken = (currentToken: string) => rotate({ currentToken });
        expect(await refusal(byToken(group.token))).toEqual(await refusal(byToken(nobodys)));
        const resolve = (token: string) => client.resolveViewer({ token }, headers);
        expect(await refusal(resolve(group.token))).toEqual(await refusal(resolve(nobodys)));
      }
      expect((await reference.getUserGroup({ userGroupId }, as.customer)).group).toEqual(group);
    });
  });

  it("the response contains the request id of the caller, or a new request id if the caller sends no valid id", async () => {
    const { client, as } = place;
    const headers = { ...as.customer, "x-request-id": "caller/1" };
    expect((await client.getUserGroup({ userGroupId: "a" }, headers)).requestId).toBe("caller/1");
    for (const [, call] of CALLS.slice(1)) expect((await failureOf(call(client, headers))).requestId).toBe("caller/1");
    const refused = client.getUserGroup({ userGroupId: "a" }, { "x-request-id": "caller/2" });
    expect((await failureOf(refused)).requestId).toBe("caller/2");
    const made = new Set<string | undefined>();
    for (const sent of [undefined, "two words", "x".repeat(129)]) {
      const id = sent === undefined ? {} : { "x-request-id": sent };
      made.add((await client.getUserGroup({ userGroupId: "a" }, { ...as.customer, ...id } as CallHeaders)).requestId);
    }
    expect([...made].map((id) => id?.length)).toEqual([36, 36, 36]);
  });

  const { openGzip } = row;
  if (openGzip) {
    it("requests and responses can be compressed with gzip", async () => {
      const { server, reference, as } = place;
      const client = openGzip(server.url);
      const userGroupId = newId();
      const properties = { text: "compressible ".repeat(4000) };
      const { group } = await client.getUserGroup({ userGroupId, properties }, as.customer);
      expect(group.properties).toEqual(properties);
      const { group: stored } = await reference.getUserGroup({ userGroupId }, as.customer);
      expect(stored.properties).toEqual(properties);
      expect((await client.resolveViewer({ token: group.token }, as.customer)).viewer.properties).toEqual(properties);
      const failure = await failureOf(client.updateUserGroup({ userGroupId, name: "é".repeat(300) }, as.customer));
      expect(failure.fields.violations.map(({ field }) => field)).toEqual(["name"]);
      // The compressed message is smaller than the limit. After decompression, the message is larger than the limit.
      const bomb = await failureOf(client.updateUserGroup({ userGroupId, name: "n".repeat(2 ** 21) }, as.customer));
      expect(bomb.fields).toMatchObject({ code: "resource_exhausted", reason: "MESSAGE_TOO_LARGE" });
      client.close();
    });
  }
});
