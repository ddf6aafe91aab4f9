import { ConnectError } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { CompactSign, importJWK } from "jose";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { newKeyId } from "../src/sessions/session.ts";
import { newKeyPair } from "../src/sessions/signing.ts";
import { signingKeysKey } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf, bearer, customerOf } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { grpcClients } from "./support/rpc.ts";
import { numberOfEnvironment } from "./support/stored-keys.ts";

const CLAIMS = ["iss", "aud", "sub", "tid", "gen", "jti", "iat", "exp", "vid", "origin", "properties", "ext"] as const;

const reasonOf = (error: unknown) => ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason;

const VALUES = [
  ...["null", "true", "1", "-1", "1.5", "1e300", "1e999", '""', '"text"', '"\\ud800"', '"\\u0000"', '"__proto__"'],
  ...["[]", "[1]", "{}", '{"__proto__":1}', '{"a":1e999}', `${"[".repeat(900)}${"]".repeat(900)}`],
  ...[`{"a":${"[".repeat(900)}${"]".repeat(900)}}`, `"${"x".repeat(3000)}"`],
];

describeWithRedis("a signing key that an attacker has added to Redis", () => {
  it("a viewer session signed with an attacker's key is rejected or resolved, and no claim causes an internal error", async () => {
    const redis = await newRedis();
    const server = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const environment = customerOf(server);
    const { groups, viewers } = grpcClients(server);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
    await adminOf(server.url).rotateSigningKey({ environment });
    // Simulate an attacker who has write access to Redis, and who adds a signing key.
    const [kid, pair, now] = [newKeyId(), await newKeyPair(), Math.floor(Date.now() / 1000)];
    const stored = [Date.now() - 1000, Date.now() - 1000, pair.x, pair.y].join(".");
    const operator = newOperator(redis);
    const number = await numberOfEnvironment(operator, { name: server.environment, tag: "Customer" });
    await operator.hset(signingKeysKey(number), kid, stored);
    const key = await importJWK({ kty: "EC", crv: "P-256", ...pair }, "ES256");
    const right = {
      ...{
        iss: `${server.url}/e/${server.environment}/Customer`,
        aud: "page",
        sub: "a",
        tid: Number(userGroup?.teamId),
      },
      ...{ gen: 0, jti: "j", iat: now, exp: now + 600, vid: "bob", origin: "https://example.com" },
      ...{ properties: {}, ext: {} },
    };
    const sign = (payload: string) =>
      new CompactSign(Buffer.from(payload)).setProtectedHeader({ alg: "ES256", typ: "viewer+jwt", kid }).sign(key);

    const whole = await sign(JSON.stringify(right));
    expect((await viewers.resolveViewer({ token: whole })).session?.viewerId).toBe("bob");
    const refused = ["VIEWER_SESSION_INVALID", "VIEWER_SESSION_EXPIRED", "VIEWER_SESSION_ENDED"];
    const headers = { ...bearer(server.tokens.customer), "content-type": "application/json" };
    const wrong = CLAIMS.flatMap((claim) =>
      VALUES.map(async (value) => {
        const token = await sign(JSON.stringify({ ...right, [claim]: "HERE" }).replace('"HERE"', () => value));
        const reason = await viewers.resolveViewer({ token }).then(() => refused[0], reasonOf);
        const { status } = await http1(server.url, "/api/viewer", {
          method: "POST",
          headers,
          body: `{"token":"${token}"}`,
        });
        return refused.includes(`${reason}`) && status === 200
          ? []
          : [{ claim, value: value.slice(0, 40), reason, status }];
      }),
    );
    expect((await Promise.all(wrong)).flat()).toEqual([]);
    expect(server.log().filter(({ level }) => level === "error")).toEqual([]);
  });
});
