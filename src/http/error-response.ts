import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, codeToString } from "@connectrpc/connect/protocol-connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { reasonOfCode } from "../rpc/errors.ts";
import type { HttpResponse } from "../transport/index.ts";

/** Reasons with a more specific HTTP status than that of their code. */
const STATUS: { readonly [reason: string]: number } = {
  PATH_NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  MESSAGE_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  EXPECTATION_FAILED: 417,
  HEADER_TOO_LARGE: 431,
  OVERLOADED: 503,
};

/** Whether a call failed because the group's etag did not match. */
export function isMismatch(failure: unknown): boolean {
  return failure instanceof ConnectError && failure.findDetails(ErrorInfoSchema)[0]?.reason === "ETAG_MISMATCH";
}

/**
 * The REST response for an error.
 *
 * @param conditional whether the request had a condition (`If-Match`); its failure is 412
 */
export function errorResponse(error: ConnectError, conditional = false): HttpResponse {
  const info = error.findDetails(ErrorInfoSchema)[0];
  const reason = info?.reason ?? reasonOfCode(error.code);
  const outcome = info?.metadata["outcome"];
  const violations = error.findDetails(BadRequestSchema)[0]?.fieldViolations ?? [];
  const status = conditional && reason === "ETAG_MISMATCH" ? 412 : (STATUS[reason] ?? statusOf(error.code));
  const body = Buffer.from(
    JSON.stringify({
      success: 0,
      error: {
        code: codeToString(error.code),
        reason,
        message: error.rawMessage,
        ...(outcome !== undefined && { outcome }),
        field_violations: violations.map(({ field, description }) => ({ field, description })),
      },
    }),
  );
  const headers: HttpResponse["headers"] = {
    "content-type": "application/json",
    "content-length": String(body.byteLength),
  };
  error.metadata.forEach((value, name) => {
    headers[name] = value;
  });
  return { status, headers, body };
}

function statusOf(code: Code): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
