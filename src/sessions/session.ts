import { randomBytes } from "node:crypto";
import { MAX_HEADER_LENGTH, TYPE } from "./rules.ts";

export function newKeyId(): string {
  return randomBytes(16).toString("base64url");
}

/** Returns whether a text begins with the header of a session. Does not verify the session. */
export function isSession(text: string): boolean {
  // Avoid decoding tokens that are not JWTs. `eyJ` is `{"` in base64url.
  if (!text.startsWith("eyJ")) return false;
  const [head = ""] = text.slice(0, MAX_HEADER_LENGTH).split(".", 1);
  return Buffer.from(head, "base64url").includes(`"typ":"${TYPE}"`);
}
