import type { DescMethod } from "@bufbuild/protobuf";
import { Code, createConnectRouter } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { ROOT } from "../auth/principal.ts";
import { accessTo, authorization, METHODS } from "./access.ts";
import { Call } from "./context.ts";
import { routes } from "./routes.ts";

it("every method that is served has a policy, and every policy a method", () => {
  const router = createConnectRouter();
  // Handlers are made, not called.
  routes({ reflection: true } as never)(router);
  const served = router.handlers.map(({ method }) => method);
  expect(served.filter((method) => accessTo(method) === undefined)).toEqual([]);
  expect(new Set(served)).toEqual(new Set(METHODS));
});

it("nobody may call a method without a policy", () => {
  const method = { name: "Forgotten" } as DescMethod;
  const header = new Headers({ authorization: "Token 0123456789abcdef" });
  const contextValues = new Call("grpc");
  const authorize = authorization({
    authenticator: { authenticate: () => ROOT },
    limits: { tokens: undefined, failures: undefined, onLimited: () => {} },
    trustedProxies: [],
  });
  expect(() => authorize({ method, header, contextValues })).toThrow(
    expect.objectContaining({ code: Code.PermissionDenied }),
  );
  expect(contextValues.principal).toBeUndefined();
});
