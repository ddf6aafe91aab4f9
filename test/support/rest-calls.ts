import { type HttpAnswer, type HttpRequest, http1 } from "@user-group-service/testing/http";
import { expect } from "vitest";
import type { JsonObject } from "../../src/domain/user-group.ts";
import { newId } from "./matrix.ts";
import type { TestServer } from "./server.ts";

export type Success = { success: number; new_user_group?: boolean; user_group: JsonObject & { token: string } };

export function restCalls(server: TestServer) {
  /** Makes a REST call. If `body` is a string, it is sent unchanged. If `body` is an object, it is sent as JSON. */
  async function call(
    method: string,
    body: JsonObject | string | undefined,
    options: HttpRequest & { target?: string } = {},
  ) {
    const { target = "/api/user", headers } = options;
    const authorization = `Token ${server.tokens.customer}`;
    return http1(server.url, target, {
      method,
      headers: { authorization, "content-type": "application/json", ...headers },
      body: typeof body === "object" ? JSON.stringify(body) : body,
    });
  }

  async function ok(answer: Promise<HttpAnswer>): Promise<Success> {
    const { status, body, json } = await answer;
    expect(status, body.toString()).toBe(200);
    expect(body.toString()).toMatch(/\}\n$/);
    return json<Success>();
  }

  async function created(fields: JsonObject = {}): Promise<Success & { id: string }> {
    const id = newId();
    return { ...(await ok(call("GET", { user_group_id: id, ...fields }))), id };
  }

  return { call, ok, created };
}
