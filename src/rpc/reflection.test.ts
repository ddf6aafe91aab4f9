import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { file_buf_validate_validate } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import type { ServerReflectionRequest } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { reflection } from "./reflection.ts";

type Question = ServerReflectionRequest["messageRequest"];

const served = reflection([UserGroupService], async () => [file_buf_validate_validate]);

async function ask(messageRequest: Question) {
  const requests = (async function* () {
    yield { host: "", messageRequest };
  })();
  for await (const { messageResponse } of served.serverReflectionInfo(requests)) return messageResponse;
  throw new Error("no answer");
}

async function bytesOf(question: Question): Promise<Uint8Array | undefined> {
  const answer = await ask(question);
  return answer.case === "fileDescriptorResponse" ? answer.value.fileDescriptorProto[0] : undefined;
}

it("serializes each file once", async () => {
  const first = await bytesOf({ case: "fileContainingSymbol", value: "usergroup.v1.UserGroupService" });
  expect(first?.byteLength).toBeGreaterThan(100);
  expect(await bytesOf({ case: "fileContainingSymbol", value: "usergroup.v1.GetUserGroupRequest" })).toBe(first);
});

it.each([
  ["a service", "usergroup.v1.UserGroupService", "user_group_service"],
  ["a method", "usergroup.v1.UserGroupService.GetUserGroup", "user_group_service"],
  ["a message", "usergroup.v1.UserGroup", "user_group"],
  ["a field", "usergroup.v1.UserGroup.team_id", "user_group"],
  ["a oneof", "usergroup.v1.RotateUserGroupTokenRequest.group", "user_group_service"],
  ["an enum", "usergroup.v1.ApiEnvironmentTag", "user_group"],
  ["a value of an enum", "usergroup.v1.ApiEnvironmentTag.API_ENVIRONMENT_TAG_TESTING", "user_group"],
  ["an extension", "usergroup.v1.json", "json_rules"],
])("finds the file of %s", async (_what, value, name) => {
  const bytes = await bytesOf({ case: "fileContainingSymbol", value });
  expect(bytes && fromBinary(FileDescriptorProtoSchema, bytes).name).toBe(`usergroup/v1/${name}.proto`);
});

it("finds extensions by the message that they extend", async () => {
  const containingType = "google.protobuf.FieldOptions";
  const extension = (extensionNumber: number): Question => ({
    case: "fileContainingExtension",
    value: { $typeName: "grpc.reflection.v1.ExtensionRequest", containingType, extensionNumber },
  });
  const bytes = await bytesOf(extension(1159));
  expect(bytes && fromBinary(FileDescriptorProtoSchema, bytes).name).toBe("buf/validate/validate.proto");
  expect(await ask(extension(7))).toMatchObject({ value: { errorCode: Code.NotFound } });
  const numbers = (value: string) => ask({ case: "allExtensionNumbersOfType", value });
  expect(await numbers(containingType)).toMatchObject({
    value: { baseTypeName: containingType, extensionNumber: [1159, 1160, 51159, 51160, 51161] },
  });
  expect(await numbers("usergroup.v1.UserGroup")).toMatchObject({ value: { extensionNumber: [] } });
});

it.each([
  { case: "fileByFilename", value: "nowhere.proto" },
  { case: "fileContainingSymbol", value: "nowhere" },
  { case: "fileContainingSymbol", value: "usergroup.v1.UserGroup.nothing" },
  { case: "allExtensionNumbersOfType", value: "no.Message" },
] as const)("returns NOT_FOUND for %j", async (question) => {
  expect(await ask(question)).toEqual({
    case: "errorResponse",
    value: { errorCode: Code.NotFound, errorMessage: `this server does not have ${question.value}` },
  });
});

it("limits the requests and the file bytes of a stream", async () => {
  const askAgain = async (messageRequest: Question) => {
    let [answers, bytes, sent] = [0, 0, 0];
    const requests = (async function* () {
      for (let i = 0; i < 100_000; i++) {
        sent++;
        yield { host: "", messageRequest };
      }
    })();
    const reading = (async () => {
      for await (const { messageResponse } of served.serverReflectionInfo(requests)) {
        answers++;
        if (messageResponse.case !== "fileDescriptorResponse") continue;
        for (const file of messageResponse.value.fileDescriptorProto) bytes += file.byteLength;
      }
    })();
    const error = ConnectError.from(await reading.catch((reason: unknown) => reason));
    return { answers, bytes, sent, code: error.code };
  };
  const small = await askAgain({ case: "listServices", value: "" });
  expect(small).toEqual({ answers: 1000, bytes: 0, sent: 1001, code: Code.ResourceExhausted });
  const large = await askAgain({ case: "fileContainingSymbol", value: "buf.validate.FieldRules" });
  expect(large.code).toBe(Code.ResourceExhausted);
  expect(large.bytes).toBeLessThanOrEqual(4 * 1024 * 1024);
  // More than 20 copies of the file fit into the limit.
  expect(large.answers).toBeGreaterThan(20);
});
