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
  class extends original {
    override async serve(...request: Parameters<Route["serve"]>): ReturnType<Route["serve"]> {
      // The body, and what is made of the answer.
      await undefined;
      const answer = await super.serve(...request);
      return answer;
    }
  };
