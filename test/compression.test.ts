import { gunzipSync, gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { GetUserGroupRequestSchema, GetUserGroupResponseSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { envelope, type HttpRequest, http1, http2 } from "./support/http.ts";
import { suiteServer } from "./support/opened.ts";
import { RUNTIMES } from "./support/server.ts";

const PATH = "/usergroup.v1.UserGroupService/GetUserGroup";
const TEXT = "again and ".repeat(1000);

describe.each(RUNTIMES)("compression on the wire on %s", (runtime) => {
  const server = suiteServer({ runtime });

  const post = (headers: HttpRequest["headers"], body: Uint8Array): HttpRequest => ({
    method: "POST",
    headers: { authorization: `Token ${server.tokens.customer}`, ...headers },
    body,
  });
  const message = (userGroupId: string, text = TEXT) =>
    toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId, properties: { text } }));
  const propertiesOf = (bytes: Uint8Array) => fromBinary(GetUserGroupResponseSchema, bytes).userGroup?.properties;

  it("of Connect: the body, where it is asked for and worth it", async () => {
    const headers = { "content-type": "application/proto", "content-encoding": "gzip", "accept-encoding": "gzip" };
    for (const send of [http1, http2]) {
      const long = await send(server.url, PATH, post(headers, gzipSync(message("connect"))));
      expect(long.headers["content-encoding"]).toBe("gzip");
      expect(long.body.byteLength).toBeLessThan(1000);
      expect(propertiesOf(gunzipSync(long.body))).toEqual({ text: TEXT });
      const short = await send(server.url, PATH, post(headers, gzipSync(message("short", "s"))));
      expect(short.headers["content-encoding"]).toBeUndefined();
      expect(propertiesOf(short.body)).toEqual({ text: "s" });
      const plain = await send(server.url, PATH, post({ "content-type": "application/proto" }, message("connect")));
      expect(plain.headers["content-encoding"]).toBeUndefined();
      expect(propertiesOf(plain.body)).toEqual({ text: TEXT });
      const unknown = { "content-type": "application/proto", "content-encoding": "zip" };
      expect((await send(server.url, PATH, post(unknown, message("connect")))).json()).toMatchObject({
        code: "unimplemented",
      });
    }
  });

  it.each(["application/grpc", "application/grpc-web+proto"])("of %s: each message by its flag", async (type) => {
    const send = type === "application/grpc" ? http2 : http1;
    const headers = { "content-type": type, te: "trailers", "grpc-encoding": "gzip", "grpc-accept-encoding": "gzip" };
    const long = await send(server.url, PATH, post(headers, envelope(gzipSync(message(type)), 1)));
    expect(long.headers["grpc-encoding"]).toBe("gzip");
    expect(long.body.readUInt8(0)).toBe(1);
    const length = long.body.readUInt32BE(1);
    expect(length).toBeLessThan(1000);
    expect(propertiesOf(gunzipSync(long.body.subarray(5, 5 + length)))).toEqual({ text: TEXT });
    const short = await send(server.url, PATH, post(headers, envelope(message(`${type} short`, "s"))));
    expect(short.body.readUInt8(0)).toBe(0);
    expect(propertiesOf(short.body.subarray(5, 5 + short.body.readUInt32BE(1)))).toEqual({ text: "s" });
  });
});
