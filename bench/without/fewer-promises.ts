import type { UserRoute as Route } from "../../src/rest/user-route.ts";
import type { authenticationInterceptor as Authentication } from "../../src/rpc/interceptors.ts";

/* What may answer at once is awaited all the same, outside of the transport. */

export const authenticationInterceptor =
  (original: typeof Authentication): typeof Authentication =>
  (...options) =>
  (next) => {
    const call = original(...options)(next);
    return async (req) => {
      await undefined;
      return call(req);
    };
  };

export const UserRoute = (original: typeof Route) =>
  class<R extends Parameters<Route<never>["serve"]>[0]> extends original<R> {
    override async serve(request: R): ReturnType<Route<R>["serve"]> {
      // The body, and what is made of the answer.
      await undefined;
      const answer = await super.serve(request);
      return answer;
    }
  };
