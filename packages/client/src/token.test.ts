import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { UserGroupService } from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { presentingToken, type TokenSource } from "./token.ts";

/**
 * Calls a service that accepts only the token `known`. Returns the `Authorization` headers that the service received.
 * If the call fails, the last element is the code of the error.
 */
async function presented(source: TokenSource, known: string): Promise<(string | null)[]> {
  const seen: (string | null)[] = [];
  const transport = createRouterTransport(
    (router) => {
      router.service(UserGroupService, {
        getUserGroup: (_, { requestHeader }) => {
          seen.push(requestHeader.get("authorization"));
          if (seen.at(-1) !== `Token ${known}`) throw new ConnectError("unknown token", Code.Unauthenticated);
          return {};
        },
      });
    },
    { transport: { interceptors: [presentingToken(source)] } },
  );
  await createClient(UserGroupService, transport)
    .getUserGroup({ userGroupId: "acme" })
    .catch((error: unknown) => seen.push(Code[ConnectError.from(error).code] ?? null));
  return seen;
}

it("the client sends an API token without surrounding white space", async () => {
  expect(await presented(" good\n", "good")).toEqual(["Token good"]);
});

it("the client calls the token function for each call, and once more after the service rejects the token", async () => {
  const calls: (string | undefined)[] = [];
  const source: TokenSource = async ({ refused }) => {
    calls.push(refused);
    return refused === undefined ? "old" : "new";
  };
  expect(await presented(source, "new")).toEqual(["Token old", "Token new"]);
  expect(await presented(source, "another")).toEqual(["Token old", "Token new", "Unauthenticated"]);
  expect(calls).toEqual([undefined, "old", undefined, "old"]);
});

it("if there is no other token, the client does not repeat the rejected call", async () => {
  expect(await presented(() => "old", "new")).toEqual(["Token old", "Unauthenticated"]);
  expect(await presented("old", "new")).toEqual(["Token old", "Unauthenticated"]);
});

it.each(["", " \n", "two words", undefined])(
  "the client rejects the token %j, and does not show the token in the error",
  async (token) => {
    expect(() => presentingToken(token as string)).toThrow(/^token must be an API token of the service(?!.*two words)/);
    expect(await presented(() => token as string, "good")).toEqual(["Unknown"]);
  },
);

it("if the token function hangs, the call ends at its deadline, and the signal of the function is aborted", async () => {
  const signals: AbortSignal[] = [];
  const hanging: TokenSource = ({ signal }) => {
    signals.push(signal);
    return new Promise(() => {});
  };
  const transport = createRouterTransport(() => {}, { transport: { interceptors: [presentingToken(hanging)] } });
  const { getUserGroup } = createClient(UserGroupService, transport);
  await expect(getUserGroup({}, { timeoutMs: 20 })).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  const controller = new AbortController();
  const called = getUserGroup({}, { signal: controller.signal });
  controller.abort();
  await expect(called).rejects.toMatchObject({ code: Code.Canceled });
  await expect(getUserGroup({}, { signal: controller.signal })).rejects.toMatchObject({ code: Code.Canceled });
  expect(signals.map(({ aborted }) => aborted)).toEqual(signals.map(() => true));
});
