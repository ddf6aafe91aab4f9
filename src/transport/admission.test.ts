import { Code, ConnectError, createContextKey } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { TalkService } from "../../test/transport/gen/talk/v1/talk_pb.ts";
import { type Admit, admitted, type Turn } from "./admission.ts";
import { UnaryTransport } from "./unary.ts";
import type { Route, WireRequest } from "./wire.ts";

const kCaller = createContextKey("nobody");
const PATH = "/talk.v1.TalkService/Say";
const JSON_TYPE = { "content-type": "application/json" };

/** A transport with one method, what it saw, and how often a place was given back. */
function transportWith(decide: (name: string) => boolean | Promise<boolean>, isAsync: boolean, isFull = false) {
  const seen: string[] = [];
  let released = 0;
  const turn: Turn = {
    begin: () => {
      if (isFull) throw new ConnectError("full", Code.ResourceExhausted);
    },
    end: () => {
      released++;
    },
  };
  const admit: Admit = ({ header, contextValues }) => {
    const name = header.get("x-caller") ?? "";
    const finish = (isIn: boolean) => {
      if (!isIn) throw new ConnectError("no", Code.PermissionDenied);
      contextValues.set(kCaller, name);
      return turn;
    };
    return isAsync ? Promise.resolve(decide(name)).then(finish) : finish(decide(name) as boolean);
  };
  const transport = new UnaryTransport({
    admit,
    routes: (router) =>
      router.rpc(TalkService.method.say, (request, { values }) => {
        seen.push(values.get(kCaller));
        if (request.text === "fail") throw new ConnectError("failed", Code.NotFound);
        return {};
      }),
  });
  const route = async (caller: string) =>
    (await transport.route("POST", PATH, { ...JSON_TYPE, "x-caller": caller })) as Route;
  return { route, seen, released: () => released, transport };
}

function request(body: string): WireRequest {
  return {
    ...{ httpMethod: "POST", target: PATH, headers: JSON_TYPE, body: Buffer.from(body) },
    url: () => `http://x${PATH}`,
    requestSignal: () => new AbortController().signal,
  };
}

describe.each([true, false])("admission, asynchronous: %s", (isAsync) => {
  it("lets a call in with what was found out of it, and gives its place back once", async () => {
    const { route, seen, released } = transportWith(() => true, isAsync);
    for (const [body, status] of [
      ["{}", 200],
      ['{"text":"fail"}', 404],
      ["{", 400],
    ] as const) {
      const before = released();
      const found = await route("ada");
      expect(found.isTooLong).toBeTypeOf("function");
      expect((await found.serve(request(body))).status).toBe(status);
      expect(released()).toBe(before);
      found.end?.();
      found.end?.();
      expect(released()).toBe(before + 1);
    }
    expect(seen).toEqual(["ada", "ada"]);
  });

  it("refuses a call whose place others took while its body came", async () => {
    const { route, seen, released } = transportWith(() => true, isAsync, true);
    const found = await route("ada");
    const { status } = await found.serve(request("{}"));
    found.end?.();
    expect([status, seen, released()]).toEqual([429, [], 0]);
  });

  it("takes no place for a body that does not come", async () => {
    const { route, released } = transportWith(() => true, isAsync);
    (await route("ada")).end?.();
    expect(released()).toBe(0);
  });

  it("refuses a call without its body, and there is nothing to give back", async () => {
    const { route, seen, released } = transportWith((name) => name !== "eve", isAsync);
    const found = await route("eve");
    expect(found.isTooLong).toBeUndefined();
    const { status, body } = await found.serve(request("{"));
    expect([status, JSON.parse(Buffer.from(body as Uint8Array).toString())]).toEqual([
      403,
      { code: "permission_denied", message: "no" },
    ]);
    found.end?.();
    expect([seen, released()]).toEqual([[], 0]);
  });
});

it("needs no promise where the decision needs none", () => {
  const { transport } = transportWith(() => true, false);
  expect(transport.route("POST", PATH, JSON_TYPE)).not.toBeInstanceOf(Promise);
  expect(admitted(TalkService.method.say, "rest", {}, {})).not.toBeInstanceOf(Promise);
});
