import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";
import { create, createFileRegistry, fromBinary, toBinary, toJson } from "@bufbuild/protobuf";
import {
  anyUnpack,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { ViolationsSchema } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServerReflection, ServerReflectionRequestSchema } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { envelope, http2 } from "./support/http.ts";
import { suiteServer } from "./support/opened.ts";
import { RUNTIMES } from "./support/server.ts";

type Asked = { case: "fileContainingSymbol" | "fileByFilename"; value: string };

describe.each(RUNTIMES)("what reflection serves on %s", (runtime) => {
  const server = suiteServer({ runtime });
  let sessionManager: Http2SessionManager;
  let headers: { authorization: string };
  beforeAll(() => {
    sessionManager = new Http2SessionManager(server.url);
    headers = { authorization: `Token ${server.tokens.customer}` };
  });
  afterAll(() => sessionManager.abort());
  const transport = () => createGrpcTransport({ baseUrl: server.url, sessionManager });

  /** The bytes of the file that answers a question. */
  async function ask(messageRequest: Asked): Promise<Uint8Array> {
    const requests = (async function* () {
      yield create(ServerReflectionRequestSchema, { messageRequest });
    })();
    for await (const { messageResponse } of createClient(ServerReflection, transport()).serverReflectionInfo(
      requests,
    )) {
      if (messageResponse.case !== "fileDescriptorResponse") throw new Error(`no file: ${messageRequest.value}`);
      return messageResponse.value.fileDescriptorProto[0] as Uint8Array;
    }
    throw new Error("no answer");
  }

  /** A registry made of nothing but what is served, as grpcurl makes it. */
  async function registryOf(symbols: readonly string[]) {
    const files = new Map<string, FileDescriptorProto>();
    const add = async (asked: Asked) => {
      const file = fromBinary(FileDescriptorProtoSchema, await ask(asked));
      const known = files.get(file.name);
      // One name is one file, whichever way it was found.
      if (known)
        return expect(toBinary(FileDescriptorProtoSchema, known)).toEqual(toBinary(FileDescriptorProtoSchema, file));
      for (const name of file.dependency) if (!files.has(name)) await add({ case: "fileByFilename", value: name });
      files.set(file.name, file);
    };
    for (const value of symbols) await add({ case: "fileContainingSymbol", value });
    return createFileRegistry(create(FileDescriptorSetSchema, { file: [...files.values()] }));
  }

  const DETAILS = [
    "google.rpc.ErrorInfo",
    "google.rpc.BadRequest",
    "google.rpc.RetryInfo",
    "buf.validate.Violations",
    "buf.validate.FieldPath",
  ];

  it("lets a client read every detail of an error that knows none of them", async () => {
    const registry = await registryOf(["usergroup.v1.UserGroupService", ...DETAILS]);
    for (const name of DETAILS) expect(registry.getMessage(name)?.typeName).toBe(name);
    const client = createClient(UserGroupService, transport());
    const error = ConnectError.from(await client.getUserGroup({}, { headers }).catch((reason: unknown) => reason));
    const details = error.details.map((detail) => {
      if (!("type" in detail)) throw new TypeError("it came over the wire");
      const any = {
        $typeName: "google.protobuf.Any",
        typeUrl: `type.googleapis.com/${detail.type}`,
        value: detail.value,
      } as const;
      const message = anyUnpack(any, registry);
      const desc = registry.getMessage(detail.type);
      return message && desc ? toJson(desc, message, { registry }) : undefined;
    });
    expect(details).toEqual([
      { violations: [expect.objectContaining({ ruleId: "string.min_len" })] },
      { reason: "VALIDATION_FAILED", domain: "user-group-service" },
      { fieldViolations: [{ field: "user_group_id", description: "must not be empty" }] },
    ]);
  });

  it("has the whole of protovalidate's file, with the numbers of ours", async () => {
    const registry = await registryOf(["usergroup.v1.UserGroupService"]);
    const served = registry.getMessage("buf.validate.FieldRules");
    expect(served?.fields.map(({ name }) => name)).toContain("repeated");
    const violations = registry.getMessage("buf.validate.Violations");
    expect(violations?.fields.map(({ number }) => number)).toEqual(ViolationsSchema.fields.map(({ number }) => number));
    expect(registry.getExtension("buf.validate.field")?.number).toBe(1159);
  });

  it("is compressed with an effort that fits live traffic", async () => {
    const question = create(ServerReflectionRequestSchema, {
      messageRequest: { case: "fileContainingSymbol", value: "usergroup.v1.UserGroupService" },
    });
    const answer = await http2(server.url, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", {
      method: "POST",
      headers: { "content-type": "application/grpc", te: "trailers", "grpc-accept-encoding": "br" },
      body: envelope(toBinary(ServerReflectionRequestSchema, question)),
    });
    expect(answer.headers["grpc-encoding"]).toBe("br");
    expect(answer.body.readUInt8(0)).toBe(1);
    const compressed = answer.body.subarray(5, 5 + answer.body.readUInt32BE(1));
    const plain = brotliDecompressSync(compressed);
    const by = (quality: number) => {
      const params = {
        [constants.BROTLI_PARAM_QUALITY]: quality,
        [constants.BROTLI_PARAM_SIZE_HINT]: plain.byteLength,
      };
      return brotliCompressSync(plain, { params }).byteLength;
    };
    // The runtimes' encoders are not the same to the byte.
    expect(Math.abs(compressed.byteLength - by(4))).toBeLessThan(Math.abs(compressed.byteLength - by(11)));
  });
});
