import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
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
import { envelope, type HttpAnswer, http1, http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection, ServerReflectionRequestSchema } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { sharedServer } from "./support/opened.ts";
import { metricsTextOf } from "./support/operations.ts";
import { expectRestError } from "./support/rest-shape.ts";

type Asked = { case: "fileContainingSymbol" | "fileByFilename"; value: string };

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("..", import.meta.url));

const SERVICES = [
  "grpc.health.v1.Health",
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
  "usergroup.admin.v1.AdminService",
  "usergroup.v1.UserGroupService",
  "usergroup.v1.ViewerService",
];
const CHECKED = ["", "changes", ...SERVICES.filter((name) => name.startsWith("usergroup."))];

describe.each(RUNTIMES)("operations on %s", (runtime) => {
  const server = sharedServer({ runtime });

  describe("endpoints for operators", () => {
    it.each(["/healthz", "/readyz", "/readyz?changes", "/healthz?x=1"])(
      "%s responds without an API token",
      async (path) => {
        for (const send of [http1, http2]) {
          const answer = await send(server.url, path);
          expect({ status: answer.status, body: answer.body.toString() }).toEqual({ status: 200, body: "ok\n" });
          expect(answer.headers["content-type"]).toMatch(/^text\/plain/);
        }
        const head = await http1(server.url, path, { method: "HEAD" });
        expect(head).toMatchObject({ status: 200, body: Buffer.alloc(0) });
      },
    );

    it.each(["/healthz", "/readyz", "/metrics"])("%s allows only the methods GET and HEAD", async (path) => {
      for (const send of [http1, http2]) {
        for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
          const answer = await send(server.url, path, { method, body: "{}" });
          expectRestError(answer, { status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED" });
          expect(answer.headers["allow"]).toBe("GET, HEAD");
        }
      }
    });

    it("/metrics reports calls, the store and the process, but neither tokens nor groups", async () => {
      const headers = { authorization: `Token ${server.tokens.customer}`, "content-type": "application/json" };
      await http1(server.url, "/api/user", { headers, body: '{"user_group_id":"metrics"}' });
      const { headers: answered } = await http1(server.url, "/metrics");
      expect(answered["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/);
      const text = await metricsTextOf(server);
      for (const name of [
        'grpc_server_handling_seconds_bucket\\{.*le="0\\.005".*protocol="rest"',
        'ugs_redis_duration_seconds_count\\{operation="(get|create)"\\}',
        "process_resident_memory_bytes",
        "nodejs_eventloop_lag_seconds",
      ]) {
        expect(text).toMatch(new RegExp(`^${name}.* [\\d.e+-]+$`, "m"));
      }
      expect(text).not.toContain(server.tokens.customer);
      expect(text).not.toMatch(/ugt_|"metrics"/);
    });
  });

  describe("grpc.health.v1", () => {
    const open = () => {
      const sessionManager = new Http2SessionManager(server.url);
      const health = createClient(Health, createGrpcTransport({ baseUrl: server.url, sessionManager }));
      return { health, close: () => sessionManager.abort() };
    };

    it("Check and List report every service as SERVING", async () => {
      const { health, close } = open();
      for (const service of CHECKED) {
        expect((await health.check({ service })).status).toBe(Status.SERVING);
      }
      await expect(health.check({ service: "usergroup.v1.None" })).rejects.toMatchObject({ code: 5 });
      const { statuses } = await health.list({});
      expect(Object.keys(statuses).sort()).toEqual(CHECKED);
      for (const { status } of Object.values(statuses)) expect(status).toBe(Status.SERVING);
      close();
    });

    it("Watch reports SERVING, or SERVICE_UNKNOWN for an unknown service", async () => {
      const { health, close } = open();
      for (const [service, expected] of [
        ["", Status.SERVING],
        ["usergroup.v1.None", Status.SERVICE_UNKNOWN],
      ] as const) {
        const controller = new AbortController();
        for await (const { status } of health.watch({ service }, { signal: controller.signal })) {
          expect(status).toBe(expected);
          break;
        }
        controller.abort();
      }
      close();
    });
  });

  describe("open endpoints", () => {
    const tooMuch = Buffer.concat([Buffer.from([10, 0x80, 0x28]), Buffer.alloc(5120, "x")]);

    it.each([
      "/grpc.health.v1.Health/Check",
      "/grpc.health.v1.Health/Watch",
      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ])("endpoints without an API token reject messages of more than 4096 bytes at %s", async (path) => {
      const headers = { "content-type": "application/grpc", te: "trailers" };
      const answer = await http2(server.url, path, { method: "POST", headers, body: envelope(tooMuch) });
      const status = { ...answer.headers, ...answer.trailers };
      expect(status["grpc-status"]).toBe("8");
      expect(decodeURIComponent(String(status["grpc-message"]))).toMatch(/larger than .*\b4096\b/);
    });

    it("endpoints without an API token have a lower size limit for messages than other endpoints", async () => {
      const headers = { "content-type": "application/proto", authorization: `Token ${server.tokens.customer}` };
      const post = { method: "POST", headers, body: tooMuch };
      const check = await http1(server.url, "/grpc.health.v1.Health/Check", post);
      expect(check.json()).toMatchObject({ code: "resource_exhausted", message: expect.stringContaining("4096") });
      const get = await http1(server.url, "/usergroup.v1.UserGroupService/GetUserGroup", post);
      expect(get.json()).toMatchObject({ code: "invalid_argument" });
    });
  });

  describe("reflection", () => {
    const buf = async (...args: string[]) => {
      const { stdout } = await run("node_modules/.bin/buf", ["curl", ...args], {
        cwd: ROOT,
      });
      return stdout;
    };

    it("reflection lists every service with its methods", async () => {
      const list = await buf("--reflect", "--reflect-protocol", "grpc-v1", "--list-methods", server.url);
      const services = new Set(
        list
          .trim()
          .split("\n")
          .map((line) => line.slice(0, line.indexOf("/"))),
      );
      expect([...services].sort()).toEqual(SERVICES);
      expect(list).toContain("usergroup.v1.UserGroupService/RotateUserGroupToken");
    });

    it("reflection supports a v1alpha client without generated code", async () => {
      const url = `${server.url}/usergroup.v1.UserGroupService/GetUserGroup`;
      const header = `Authorization: Token ${server.tokens.customer}`;
      const data = '{"userGroupId":"reflected","properties":{"a":[1]}}';
      const older = ["--reflect", "--reflect-protocol", "grpc-v1alpha"];
      const answer = await buf(...older, "--protocol", "grpc", "-H", header, "-d", data, url);
      expect(JSON.parse(answer)).toMatchObject({
        newUserGroup: true,
        userGroup: {
          providedId: "reflected",
          properties: { a: [1] },
          apiEnvironmentTag: "API_ENVIRONMENT_TAG_CUSTOMER",
        },
      });
    });
  });

  describe("the schema of reflection", () => {
    let sessionManager: Http2SessionManager;
    let headers: { authorization: string };
    beforeAll(() => {
      sessionManager = new Http2SessionManager(server.url);
      headers = { authorization: `Token ${server.tokens.customer}` };
    });
    afterAll(() => sessionManager.abort());
    const transport = () => createGrpcTransport({ baseUrl: server.url, sessionManager });

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

    /** Builds a registry only from reflection, as grpcurl does. */
    async function registryOf(symbols: readonly string[]) {
      const files = new Map<string, FileDescriptorProto>();
      const add = async (requested: Asked) => {
        const file = fromBinary(FileDescriptorProtoSchema, await ask(requested));
        const known = files.get(file.name);
        // All requests must return the same content for a file name.
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

    it("reflection lets a generic client read every detail of an error", async () => {
      const registry = await registryOf(["usergroup.v1.UserGroupService", ...DETAILS]);
      for (const name of DETAILS) expect(registry.getMessage(name)?.typeName).toBe(name);
      const client = createClient(UserGroupService, transport());
      const error = ConnectError.from(await client.getUserGroup({}, { headers }).catch((reason: unknown) => reason));
      const details = error.details.map((detail) => {
        if (!("type" in detail)) throw new TypeError("a received error detail must have a type");
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

    it("reflection returns the complete file of protovalidate, with the field numbers of this service", async () => {
      const registry = await registryOf(["usergroup.v1.UserGroupService"]);
      const served = registry.getMessage("buf.validate.FieldRules");
      expect(served?.fields.map(({ name }) => name)).toContain("repeated");
      const violations = registry.getMessage("buf.validate.Violations");
      expect(violations?.fields.map(({ number }) => number)).toEqual(
        ViolationsSchema.fields.map(({ number }) => number),
      );
      expect(registry.getExtension("buf.validate.field")?.number).toBe(1159);
    });

    it.each(["gzip", "br"])(
      "a reflection response is not compressed for a client that accepts %s",
      async (encoding) => {
        const question = create(ServerReflectionRequestSchema, {
          messageRequest: { case: "fileContainingSymbol", value: "usergroup.v1.UserGroupService" },
        });
        const answer = await http2(server.url, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", {
          method: "POST",
          headers: { "content-type": "application/grpc", te: "trailers", "grpc-accept-encoding": encoding },
          body: envelope(toBinary(ServerReflectionRequestSchema, question)),
        });
        const flags = answer.body.readUInt8(0);
        expect(flags).toBe(0);
        expect(answer.body.byteLength).toBe(5 + answer.body.readUInt32BE(1));
      },
    );
  });

  describe("an unknown path", () => {
    const statusOf = ({ headers, trailers, body }: HttpAnswer) =>
      String(trailers["grpc-status"] ?? headers["grpc-status"] ?? /grpc-status: *(\d+)/i.exec(body.toString())?.[1]);

    it.each(["/usergroup.v1.UserGroupService/None", "/none.Service/None", "/x"])(
      "%s is rejected as unknown over every protocol",
      async (path) => {
        const post = (type: string, body: string | Buffer) => ({
          method: "POST",
          headers: { "content-type": type, "x-request-id": "unknown" },
          body,
        });
        const grpc = await http2(server.url, path, post("application/grpc", envelope(Buffer.alloc(0))));
        expect([grpc.status, statusOf(grpc), grpc.headers["x-request-id"]]).toEqual([200, "12", "unknown"]);
        const web = await http1(server.url, path, post("application/grpc-web+proto", envelope(Buffer.alloc(0))));
        expect([web.status, statusOf(web)]).toEqual([200, "12"]);
        for (const send of [http1, http2]) {
          for (const answer of [
            await send(server.url, path, post("application/json", "{}")),
            await send(server.url, path, post("application/proto", "")),
            await send(server.url, path),
          ]) {
            expectRestError(answer, { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
          }
        }
      },
    );
  });
});
