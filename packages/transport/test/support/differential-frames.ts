import { FLAG, FRAME, frame, HELLO, numberFrame, requestHeaders } from "@user-group-service/testing/http2-frames";
import type { RawRequest } from "./differential-wire.ts";

const STREAM = 1;

/**
 * Returns the bytes that open an HTTP/2 connection, send a part of a request, and reset the stream before the body
 * ends. The client of node:http2 cannot send a part of a body, because it ends the body before it resets a stream.
 */
export function resetUpload(request: RawRequest, length: number, code: number): Buffer {
  const half = frame(FRAME.data, 0, STREAM, request.body.subarray(0, length));
  return Buffer.concat([opening(request), half, numberFrame(FRAME.reset, STREAM, code)]);
}

/**
 * Returns the bytes that open an HTTP/2 connection and send a complete request. Unlike `resetUpload`, sends the whole
 * body and does not reset the stream.
 */
export function wholeUpload(request: RawRequest): Buffer {
  return Buffer.concat([opening(request), frame(FRAME.data, FLAG.endStream, STREAM, request.body)]);
}

function opening({ method, target, headers }: RawRequest): Buffer {
  const fields = { ":method": method, ":path": target, ":authority": "raw", ...Object.fromEntries(headers) };
  return Buffer.concat([HELLO, requestHeaders(STREAM, fields)]);
}
