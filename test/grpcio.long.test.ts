import { create, toBinary } from "@bufbuild/protobuf";
import { newProcess } from "@user-group-service/testing/opened";
import { startProcess } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { BURST, pythonWithGrpcio } from "./support/grpcio.ts";
import { newServer } from "./support/opened.ts";

const python = pythonWithGrpcio();

const BURSTS = 20;
const CALLS = 1000;
const DEADLINE_SECONDS = 30;

describe.skipIf(python === undefined).each(RUNTIMES)("grpc-core with a server on %s", (runtime) => {
  it("a client on grpc-core receives a response to every call of a burst", async () => {
    const server = await newServer({ runtime });
    const message = toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId: "burst" }));
    const client = newProcess(
      startProcess([
        python ?? "",
        BURST,
        new URL(server.url).host,
        "/usergroup.v1.UserGroupService/GetUserGroup",
        Buffer.from(message).toString("hex"),
        server.tokens.customer,
        String(BURSTS),
        String(CALLS),
        String(DEADLINE_SECONDS),
      ]),
    );
    expect([await client.exited(), client.output()]).toEqual([0, `{"OK": ${CALLS}}\n`.repeat(BURSTS)]);
  });
});
