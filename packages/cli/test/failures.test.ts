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

function failing(code: Code, reason: string, outcome?: string): ConnectError {
  const error = new ConnectError("what went wrong", code, { "x-request-id": "the-request" });
  const metadata: { [name: string]: string } = outcome === undefined ? {} : { outcome };
  error.details.push({ desc: ErrorInfoSchema, value: { reason, domain: "user-group-service", metadata } });
  return error;
}

/** Starts a service whose first calls fail with `failures`. Later calls succeed. */
async function newFailing(failures: (ConnectError | "break" | "succeed")[] = []) {
  const requestIds: string[] = [];
  let response: ServerResponse | undefined;
  const fail = ({ requestId = "" }: { readonly requestId?: string }) => {
    requestIds.push(requestId);
    const failure = failures.shift();
    if (failure === "break") response?.destroy();
    else if (failure instanceof ConnectError) throw failure;
  };
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
/** Creates the error of a call that the service refused before any change. The client may retry immediately. */
const later = (reason: string) => {
  const error = failing(Code.ResourceExhausted, reason);
  error.metadata.set("retry-after", "0");
  return error;
};
/** Creates the error of a proxy that forwarded the call and received no response. */
const ofProxy = () => new ConnectError("HTTP 504", Code.Unavailable);
const notMade = () => failing(Code.Unavailable, "STORE_UNAVAILABLE", "not_made");

describe("failed calls", () => {
  it("a failed call is retried if it only reads, if it changed nothing, or if it has a request id", async () => {
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
      expect(new Set(requestIds).size).toBe(1);
    });
    await Promise.all(runs);
  });

  it("a call is not reported as 'nothing was changed' if an earlier attempt may have made the change", async () => {
    for (const first of [unknown(), "break" as const]) {
      const { run } = await newFailing([first, ...Array.from({ length: 99 }, notMade)]);
      const { code, stderr, calls } = await run("group rotate g --timeout 2s");
      expect([code, calls > 1]).toEqual([6, true]);
      expect(stderr).not.toContain("nothing was changed");
      expect(stderr).toContain("run the same command again with --request-id");
    }
  });

  it("a call that may have made a change is not retried without a request id, and is reported as a possible change", async () => {
    for (const args of ["group update g --name x", "group delete g --yes", "env delete e --yes"]) {
      for (const failure of [unknown(), ofProxy(), "break" as const]) {
        const { run } = await newFailing([failure]);
        const { code, stderr, calls } = await run(args);
        expect([args, code, calls]).toEqual([args, 6, 1]);
        expect(stderr).toMatch(/the change may have been made/);
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

  it("a call is reported as a possible change after an unexpected error of the service, unless the call only reads", async () => {
    const internal = () => failing(Code.Internal, "INTERNAL");
    const { run } = await newFailing([internal(), internal()]);
    expect(await run("group delete g --yes")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the change may have been made"),
    });
    expect((await run("group list")).stderr).not.toContain("may have been made");
  });

  it("a change that too few replicas confirmed is reported as made, not as a possible change", async () => {
    const { run } = await newFailing([failing(Code.Unavailable, "TOO_FEW_REPLICAS", "unknown")]);
    const { stderr } = await run("group delete g --yes");
    expect(stderr).toContain("the change was made");
    expect(stderr).not.toContain("may have been made");
  });

  it("a call that the service refused is reported without --request-id", async () => {
    const { run } = await newFailing([failing(Code.ResourceExhausted, "RATE_LIMITED")]);
    const { code, stderr } = await run("group rotate g");
    expect([code, stderr]).toEqual([6, expect.stringContaining("try again later; nothing was done")]);
    expect(stderr).not.toContain("--request-id");
  });

  it("a call that the user interrupts is reported as a possible change, unless the call only reads", async () => {
    const silent = createServer(() => {});
    const env = { UGS_URL: await newListener(silent), UGS_TOKEN: "a-token" };
    for (const [args, words] of [
      [["group", "delete", "g", "--yes"], "the change may have been made"],
      [["group", "list"], "ugs: interrupted\n"],
    ] as const) {
      const controller = new AbortController();
      const calling = ugs([...args], { env, interrupt: controller.signal });
      await once(silent, "request");
      controller.abort();
      expect(await calling).toMatchObject({ code: 130, stderr: expect.stringContaining(words) });
    }
  });

  it("a failed call that only reads is not reported as a possible change", async () => {
    const { run } = await newFailing(["break", "break", "break", "break"]);
    const { code, stderr } = await run("group list");
    expect([code, stderr]).toEqual([6, expect.stringContaining("closed the connection")]);
    expect(stderr).not.toContain("may have been made");
  });

  it("a call that may have made a change is reported with its --request-id, for a safe repetition", async () => {
    const { run, requestIds } = await newFailing(Array.from({ length: 8 }, unknown));
    const { code, stderr } = await run("group rotate g");
    expect([code, stderr]).toEqual([6, expect.stringContaining(`with --request-id ${requestIds[0]}`)]);
    const revoked = await run("group revoke g --yes");
    expect([revoked.code, revoked.stderr]).toEqual([6, expect.stringContaining(`with --request-id ${requestIds[0]}`)]);
  });

  it("a call that changed nothing is reported with only the hint to try again", async () => {
    for (const args of ["group rotate g", "group revoke g --yes"]) {
      const { run } = await newFailing(Array.from({ length: 4 }, notMade));
      const { code, stderr } = await run(args);
      expect([args, code, stderr]).toEqual([args, 6, expect.stringContaining("nothing was changed; try again\n")]);
      expect(stderr).not.toContain("--request-id");
    }
  });

  it("a failed call that only reads is reported without the words 'nothing was changed'", async () => {
    const { run } = await newFailing(Array.from({ length: 4 }, notMade));
    const { code, stderr } = await run("group list");
    expect([code, stderr]).toEqual([6, expect.stringContaining("  try again\n")]);
    expect(stderr).not.toContain("nothing was changed");
  });

  it("a failed call is reported with its request id, and with a hint for its reason", async () => {
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

it("env delete repeats the call until the environment is deleted, or until a repeated call returns not_found", async () => {
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

it("ping exits with 6 if the service is not ready, but ping --live exits with 0", async () => {
  const { run, url } = await newFailing();
  expect(await run("ping")).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("is not ready") });
  expect(await run("ping --live")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${url} is alive, but not`),
  });
});

it("an argument that is not valid UTF-8 is refused before the first call", async () => {
  const { run } = await newFailing();
  expect(await run("group delete caf\ufffd --yes")).toMatchObject({
    code: 2,
    calls: 0,
    stderr: "ugs: argument 3 is not valid UTF-8, or contains U+FFFD\n  give the argument in UTF-8\n",
  });
});
