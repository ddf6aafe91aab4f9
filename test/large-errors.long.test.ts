import { connect, type IncomingHttpHeaders } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { envelope, http1, http2, http2On } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { beforeAll, describe, expect, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { grpcJsClient } from "./support/clients/connect.ts";
import { failureOf } from "./support/clients/types.ts";
import { sharedServer } from "./support/opened.ts";

/** Header size that many clients and proxies accept, in bytes. */
const HEADER_LIMIT = 8 * 1024;
/** Maximum length of a key that an error quotes, in characters. Includes the ellipsis of a truncated key. */
const MAX_QUOTED = 65;

const COUNT = 950;

const GET = "/usergroup.v1.UserGroupService/GetUserGroup";

const MAPPINGS: readonly (readonly [string, { [key: string]: string }])[] = (
  [
    ["long keys", "k"],
    ["keys with three bytes per character", "鍵"],
    ["keys in surrogate pairs", "👪"],
    ["keys of quotes", '"'],
    ["keys of control characters", "\u0001"],
    ["keys of percent signs", "%"],
  ] as const
).map(([name, character]) => [
  name,
  Object.fromEntries(Array.from({ length: COUNT }, (_, i) => [`${i}${character.repeat(260)}`, "v"])),
]);

/** Returns the size of headers, as HTTP/2 counts them (RFC 9113, 6.5.2). */
function sizeOf(fields: IncomingHttpHeaders): number {
  return Object.entries(fields).reduce((sum, [name, value]) => sum + name.length + String(value).length + 32, 0);
}

describe.each(RUNTIMES)("errors on %s", (runtime) => {
  const server = sharedServer({ runtime });
  let headers: { authorization: string };
  beforeAll(() => {
    headers = { authorization: `Token ${server.tokens.customer}` };
  });

  describe.each(MAPPINGS)("about %s", (_name, mapping) => {
    it("a long error reaches grpc-js, and the connection stays open", async () => {
      const client = grpcJsClient(server.url);
      const { fields } = await failureOf(client.getUserGroup({ userGroupId: "many", mapping }, headers));
      expect(fields).toMatchObject({ code: "invalid_argument", reason: "VALIDATION_FAILED" });
      expect(fields.violations.length).toBeGreaterThan(0);
      expect(fields.violations.length).toBeLessThanOrEqual(20);
      expect(fields.message).toMatch(new RegExp(`and ${COUNT - fields.violations.length} more$`));
      for (const { field } of fields.violations) {
        const key: string = JSON.parse(field.slice("mapping[".length, -1));
        expect(key.length).toBeLessThanOrEqual(MAX_QUOTED);
      }
      expect((await client.getUserGroup({ userGroupId: "after" }, headers)).group.providedId).toBe("after");
      client.close();
    });

    it("a long error fits into 8 KiB of headers over gRPC, and into 32 KiB over REST", async () => {
      const message = create(GetUserGroupRequestSchema, { userGroupId: "many", mapping });
      const body = envelope(toBinary(GetUserGroupRequestSchema, message));
      const type = { "content-type": "application/grpc", te: "trailers" };
      const answer = await http2(server.url, GET, { method: "POST", headers: { ...headers, ...type }, body });
      const trailers = answer.trailers as IncomingHttpHeaders;
      expect(trailers["grpc-status"]).toBe("3");
      expect(sizeOf(trailers) + sizeOf(answer.headers)).toBeLessThan(HEADER_LIMIT);
      const rest = await http1(server.url, "/api/user", {
        headers: { ...headers, "content-type": "application/json" },
        // JSON escapes can make a text six times longer. So this request has fewer entries than the gRPC request above.
        body: JSON.stringify({
          user_group_id: "many",
          mapping: Object.fromEntries(Object.entries(mapping).slice(0, 600)),
        }),
      });
      expect(rest.status).toBe(400);
      expect(rest.body.byteLength).toBeLessThan(32 * 1024);
    });
  });

  it("an error lists all violations if they are short", async () => {
    const client = grpcJsClient(server.url);
    const mapping = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, "v".repeat(1025)]));
    const { fields } = await failureOf(client.getUserGroup({ userGroupId: "few", mapping }, headers));
    expect(fields.violations).toHaveLength(20);
    expect(fields.message).not.toContain("more");
    client.close();
  });

  /** Headers whose values Connect quotes in its errors. */
  const QUOTED = ["grpc-encoding", "grpc-timeout"] as const;

  it.each([GET, "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"])(
    "an error about a long header in a call of %s quotes only a part of the header",
    async (path) => {
      const session = connect(server.url);
      const ended: string[] = [];
      session.on("goaway", () => ended.push("goaway"));
      session.on("error", () => ended.push("error"));
      for (const name of QUOTED) {
        const grpc = { "content-type": "application/grpc", te: "trailers", ...headers };
        const answer = await http2On(session, path, {
          method: "POST",
          // In grpc-message, each byte of a non-ASCII character is escaped to three characters.
          headers: { ...grpc, [name]: "\u00e9".repeat(20_000) },
          body: envelope(Buffer.alloc(0)),
        });
        const fields = { ...answer.headers, ...answer.trailers } as IncomingHttpHeaders;
        expect(fields["grpc-status"]).toMatch(/^(?:3|12)$/);
        expect(sizeOf(fields)).toBeLessThan(HEADER_LIMIT);
      }
      expect(ended).toEqual([]);
      session.close();
    },
  );
});
