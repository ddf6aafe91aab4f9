import { randomBytes } from "node:crypto";
import { MAX_HEADER_LENGTH, TYPE } from "./rules.ts";

export function newKeyId(): string {
  return randomBytes(16).toString("base64url");
}

/** Returns whether a text has the header of a session. The session may be invalid. */
export function isSession(text: string): boolean {
  // Most tokens are not JWTs, so check the first characters, `{"` in base64url, before decoding.
  if (!text.startsWith("eyJ")) return false;
  const [head = ""] = text.slice(0, MAX_HEADER_LENGTH).split(".", 1);
  return Buffer.from(head, "base64url").includes(`"typ":"${TYPE}"`);
}
