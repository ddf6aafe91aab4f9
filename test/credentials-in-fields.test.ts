import { timestampNow } from "@bufbuild/protobuf/wkt";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { newUserGroupToken } from "../src/domain/token.ts";
import { ADMIN_TOKEN, adminOf, customerOf, issueToken } from "./support/admin.ts";
import { newId } from "./support/matrix.ts";
import { sharedServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

const JWT_HEAD = Buffer.from('{"alg":"ES256","typ":"viewer+jwt","kid":"k"}').toString("base64url");

describe.each(RUNTIMES)("credentials in fields on %s", (runtime) => {
  const server = sharedServer({ runtime });

  it("a credential is rejected as an id or name, and the error does not contain the credential", async () => {
    const { groups, viewers } = grpcClients(server);
    const [admin, environment, userGroupId] = [adminOf(server.url), customerOf(server), newId()];
    const { token } = await issueToken(server, "read");
    const texts = {
      "an API token": token,
      "an entry of API_TOKENS": server.tokens.customer,
      ADMIN_TOKEN,
      "a user group token": newUserGroupToken(),
      "a JWT of the type viewer+jwt": `${JWT_HEAD}.e30.c2ln`,
    };
    await groups.getUserGroup({ userGroupId });
    for (const [kind, text] of Object.entries(texts)) {
      const importing = (group: object) =>
        admin.importUserGroups({ environment, userGroups: [{ providedId: newId(), ...group }] });
      const calls = [
        groups.getUserGroup({ userGroupId: text }),
        groups.getUserGroup({ userGroupId, name: text }),
        groups.getUserGroup({ userGroupId: newId(), name: text, mapping: { a: "b" } }),
        groups.updateUserGroup({ userGroupId, name: text }),
        groups.rotateUserGroupToken({ group: { case: "userGroupId", value: text } }),
        viewers.createViewerSession({ group: { case: "userGroupId", value: userGroupId }, audience: text }),
        importing({ providedId: text }),
        importing({ name: text }),
        admin.createApiToken({ environment, displayName: text, role: 1 }),
        admin.listUserGroups({ environment, providedIdPrefix: text }),
      ];
      const settled = await Promise.allSettled(calls.map((call) => failureOf(call)));
      for (const [i, outcome] of settled.entries()) {
        const refused = { status: "fulfilled", value: { code: "InvalidArgument", reason: "VALIDATION_FAILED" } };
        expect(outcome, `${kind} in call ${i}`).toEqual(refused);
        await calls[i]?.catch((error) => expect(String(error)).not.toContain(text));
      }
    }
  });

  it("an import rejects a group whose token is another kind of credential, and imports the other groups", async () => {
    const { groups, viewers } = grpcClients(server);
    const [admin, environment, owner] = [adminOf(server.url), customerOf(server), newId()];
    await groups.getUserGroup({ userGroupId: owner });
    const group = { case: "userGroupId", value: owner } as const;
    const { session } = await viewers.createViewerSession({ group, audience: "page" });
    const { token } = await issueToken(server, "read");
    const tokens = [
      ...[session, `${JWT_HEAD}.e30.c2ln`, ADMIN_TOKEN, server.tokens.customer, server.tokens.testing, token],
      ...[newUserGroupToken(), `foreign-${crypto.randomUUID()}`],
    ];
    const userGroups = tokens.map((each) => ({ providedId: newId(), token: each }));
    const { results } = await admin.importUserGroups({ environment, userGroups, snapshotTime: timestampNow() });
    expect(results.map(({ failure }) => failure?.reason)).toEqual([
      ...Array.from({ length: 6 }, () => "TOKEN_NOT_IMPORTABLE"),
      ...[undefined, undefined],
    ]);
    expect(results.map(({ providedId }) => providedId)).toEqual(userGroups.map(({ providedId }) => providedId));
    expect((await viewers.resolveViewer({ token: session })).providedId).toBe(owner);
  });

  it("an import rejects a token that is also the id or name of another group of the import", async () => {
    const token = `foreign-${crypto.randomUUID()}`;
    for (const other of [{ providedId: token }, { providedId: newId(), name: token }]) {
      const userGroups = [{ providedId: newId(), token }, other];
      const request = { environment: customerOf(server), userGroups, snapshotTime: timestampNow() };
      expect(await failureOf(adminOf(server.url).importUserGroups(request))).toEqual({
        code: "InvalidArgument",
        reason: "VALIDATION_FAILED",
      });
    }
  });
});
