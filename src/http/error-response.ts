import { ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type HttpError, recordOf } from "@user-group-service/transport";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { EtagMismatch, TokenNotFound } from "../domain/errors.ts";

/** Whether a call failed because the group's etag did not match. */
export function isEtagMismatch(failure: unknown): boolean {
  return failure instanceof ConnectError && failure.cause instanceof EtagMismatch;
}

/** Whether a call failed because no group has the user group token, be it as its current one or within its grace. */
export function isTokenNotFound(failure: unknown): failure is ConnectError {
  return failure instanceof ConnectError && failure.cause instanceof TokenNotFound;
}

/** The response for an error over plain HTTP. */
export const errorResponse: HttpError = (error, httpStatus) => {
  // Every error has a reason by now: `toCallError` adds it.
  const info = error.findDetails(ErrorInfoSchema)[0];
  const violations = error.findDetails(BadRequestSchema)[0]?.fieldViolations ?? [];
  // Only requests with `If-Match` name an etag; 412 says that the condition failed (RFC 9110, 15.5.13).
  const status = isEtagMismatch(error) ? 412 : httpStatus;
  const text = JSON.stringify({
    success: 0,
    error: {
      code: codeToString(error.code),
      reason: info?.reason,
      message: error.rawMessage,
      ...info?.metadata,
      field_violations: violations.map(({ field, description }) => ({ field, description })),
    },
  });
  const body = Buffer.from(`${text}\n`);
  const headers = { "content-type": "application/json", "content-length": String(body.byteLength) };
  return { status, headers: { ...headers, ...recordOf(error.metadata) }, body };
};
