import type { HttpAnswer } from "@user-group-service/testing/http";
import { expect } from "vitest";

/**
 * Matches texts of libraries and runtimes, and names of source files. Errors that the service returns must not contain
 * such texts.
 */
const LIBRARY_TEXT =
  /\bat [\w.<>]+ \(|\bnode:|\.[cm]?[jt]s\b|SyntaxError|TypeError|RangeError|URIError|ZlibError|zlib|Unexpected|JSON at|cannot decode|ioredis|ReplyError|ERR_|undefined/;

/** Expects a REST error in exactly the format of the API. */
export function expectRestError(
  { status, headers, body, json }: HttpAnswer,
  expected: { status: number; code: string; reason: string; fields?: readonly string[] },
): void {
  expect(body.toString()).not.toMatch(LIBRARY_TEXT);
  expect(body.toString()).toMatch(/\}\n$/);
  expect(headers["content-type"]).toBe("application/json");
  expect(headers["x-request-id"]).toMatch(/./);
  const { success, error, ...others } = json<{ success: number; error: Record<string, unknown> }>();
  expect(others).toEqual({});
  expect(success).toBe(0);
  expect(Object.keys(error).sort()).toEqual(["code", "field_violations", "message", "reason"]);
  const { code, reason, message, field_violations } = error;
  const violations = field_violations as { field: string; description: string }[];
  const fields = violations.map(({ field }) => field);
  const { fields: expectedFields = [], ...rest } = expected;
  expect({ status, code, reason, fields }, String(message)).toEqual({ ...rest, fields: expectedFields });
  expect(message).toMatch(/./);
  for (const violation of violations) {
    expect(Object.keys(violation).sort()).toEqual(["description", "field"]);
    expect(violation.description).toMatch(/./);
  }
}

export function expectConnectError({ status, headers, body, json }: HttpAnswer, code: string, reason: string): void {
  expect(body.toString()).not.toMatch(LIBRARY_TEXT);
  expect(headers["content-type"]).toBe("application/json");
  expect(status).toBeGreaterThanOrEqual(400);
  const error = json<{ code: string; message: string; details: { debug?: { reason?: string } }[] }>();
  const reasons = error.details.map(({ debug }) => debug?.reason).filter((value) => value !== undefined);
  expect({ code: error.code, reasons }, error.message).toEqual({ code, reasons: [reason] });
}
