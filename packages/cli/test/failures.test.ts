import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { newListener } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.ts";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { ugs } from "./support/ugs.ts";

/** An error of the service. */
function failing(code: Code, reason: string, outcome?: string): ConnectError {
  const error = new ConnectError("what went wrong", code, { "x-request-id": "the-request" });
  const metadata: { [name: string]: string } = outcome === undefined ? {} : { outcome };
  error.details.push({ desc: ErrorInfoSchema, value: { reason, domain: "user-group-service", metadata } });
  return error;
}

/** A service whose calls fail one after the other as they are told, and then succeed; and `ugs` of it. */
async function newFailing(failures: (ConnectError | "break" | "succeed")[] = []) {
  const requestIds: string[] = [];
  let response: ServerResponse | undefined;
  const fail = ({ requestId = "" }: { readonly requestId?: string }) => {
    requestIds.push(requestId);
    const failure = failures.shift();
    if (failure === "break") response?.destroy();
    else if (failure instanceof ConnectError) throw failure;
  };
  /** Fails, or gives an answer. */
  const answering =
    <T>(answer: T) =>
    (request: object): T => {
      fail(request);
      return answer;
    };
  const routes = (router: ConnectRouter) => {
    router.service(AdminService, {
      listUserGroups: answering({}),
      deleteUserGroup: answering({}),
      revokeUserGroupTokens: answering({ userGroup: { providedId: "g" } }),
      deleteEnvironment: answering({ remainingUserGroups: 5n }),
    });
    router.service(UserGroupService, {
      updateUserGroup: answering({ userGroup: { providedId: "g" } }),
      rotateUserGroupToken: answering({ userGroup: { token: "made-up" } }),
    });
    router.service(Health, { check: () => ({ status: Status.NOT_SERVING }) });
  };
  const adapter = connectNodeAdapter({ routes });
  const server = createServer((req, res) => {
    response = res;
    adapter(req, res);
  });
  const env = { UGS_URL: await newListener(server), UGS_TOKEN: "a-token" };
  const run = async (args: string) => {
    requestIds.length = 0;
    return { ...(await ugs(args.split(" "), { env })), calls: requestIds.length };
  };
  return { run, requestIds, url: env.UGS_URL };
}

const unknown = () => failing(Code.Unavailable, "STORE_UNAVAILABLE", "unknown");
/** A refusal that says when to come back, as all do that the service makes before it has done anything. */
const later = (reason: string) => {
  const error = failing(Code.ResourceExhausted, reason);
  error.metadata.set("retry-after", "0");
  return error;
};
/** What a proxy answers that has passed the call on, and has no answer of the service. */
const ofProxy = () => new ConnectError("HTTP 504", Code.Unavailable);
const notMade = () => failing(Code.Unavailable, "STORE_UNAVAILABLE", "not_made");

describe("a call that fails", () => {
  it("is tried again where it changes nothing, surely was not made, or has a request id", async () => {
    const cases: [args: string, failures: (ConnectError | "break")[]][] = [
      ["group list", [unknown(), "break"]],
      ["group update g --name x", [notMade(), notMade()]],
      ["group revoke g --yes", [unknown(), "break"]],
      ["group rotate g", ["break", unknown()]],
      ["group delete g --yes", [later("OVERLOADED"), later("RATE_LIMITED")]],
    ];
    const runs = cases.map(async ([args, failures]) => {
      const { run, requestIds } = await newFailing(failures);
      expect([args, await run(args)]).toEqual([args, expect.objectContaining({ code: 0, calls: 3 })]);
      // All with the same request id.
      expect(new Set(requestIds).size).toBe(1);
    });
    await Promise.all(runs);
  });

  it("is not tried again where it may have been made, and says so", async () => {
    for (const args of ["group update g --name x", "group delete g --yes", "env delete e --yes"]) {
      for (const failure of [unknown(), ofProxy(), "break" as const]) {
        const { run } = await newFailing([failure]);
        const { code, stderr, calls } = await run(args);
        expect([args, code, calls]).toEqual([args, 6, 1]);
        expect(stderr).toMatch(/(a|the) change may have been made/);
        expect(stderr.match(/may have been made/g)).toHaveLength(1);
      }
    }
    const { run } = await newFailing([unknown()]);
    expect(JSON.parse((await run("group delete g --yes --json")).stderr)).toEqual({
      error: {
        message: "what went wrong",
        hint: expect.any(String),
        code: "unavailable",
        reason: "STORE_UNAVAILABLE",
        requestId: "the-request",
        outcome: "unknown",
        exitCode: 6,
      },
    });
  });

  it("that is interrupted says so as well", async () => {
    const silent = createServer(() => {});
    const env = { UGS_URL: await newListener(silent), UGS_TOKEN: "a-token" };
    for (const [args, words] of [
      [["group", "delete", "g", "--yes"], "a change may have been made"],
      [["group", "list"], "ugs: interrupted\n"],
    ] as const) {
      const controller = new AbortController();
      const calling = ugs([...args], { env, interrupt: controller.signal });
      await once(silent, "request");
      controller.abort();
      expect(await calling).toMatchObject({ code: 130, stderr: expect.stringContaining(words) });
    }
  });

  it("says nothing of a change where it makes none", async () => {
    const { run } = await newFailing(["break", "break", "break", "break"]);
    const { code, stderr } = await run("group list");
    expect([code, stderr]).toEqual([6, expect.stringContaining("closed the connection before it answered")]);
    expect(stderr).not.toContain("may have been made");
  });

  it("says how a rotation is repeated that goes on failing, so that it is made once", async () => {
    const { run, requestIds } = await newFailing(Array.from({ length: 8 }, unknown));
    const { code, stderr } = await run("group rotate g");
    expect([code, stderr]).toEqual([6, expect.stringContaining(`with --request-id ${requestIds[0]}`)]);
    const revoked = await run("group revoke g --yes");
    expect([revoked.code, revoked.stderr]).toEqual([6, expect.stringContaining(`with --request-id ${requestIds[0]}`)]);
  });

  it("says what was not made, and whom to ask where the service is at fault", async () => {
    const { run } = await newFailing(Array.from({ length: 4 }, notMade));
    expect(await run("group delete g --yes")).toMatchObject({
      code: 6,
      calls: 4,
      stderr: expect.stringMatching(
        /nothing was changed; try again\n {2}\(unavailable, STORE_UNAVAILABLE, request the-request\)/,
      ),
    });
    const broken = await newFailing([failing(Code.Internal, "INTERNAL")]);
    expect(await broken.run("group list")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("request the-request"),
    });
    const lossy = await newFailing([failing(Code.DataLoss, "RECORD_UNREADABLE")]);
    expect(await lossy.run("group list")).toMatchObject({ code: 1, stderr: expect.stringContaining("TOKEN_KEYS") });
  });
});

it("deleting an environment goes on until it is gone, and takes that for done where the answer was lost", async () => {
  const late = failing(Code.NotFound, "ENVIRONMENT_NOT_FOUND");
  const steps = await newFailing(["succeed", "succeed", late]);
  expect(await steps.run("env delete e --force --yes")).toMatchObject({
    code: 0,
    calls: 3,
    stderr: "5 user groups left\n5 user groups left\nThe environment e is deleted.\n",
  });
  const never = await newFailing([late]);
  expect(await never.run("env delete e --force --yes")).toMatchObject({ code: 3, calls: 1 });
});

it("a service that is not ready ends ping with 6, unless only life is asked for", async () => {
  const { run, url } = await newFailing();
  expect(await run("ping")).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("is not ready") });
  expect(await run("ping --live")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${url} is alive, but not`),
  });
});
