import { randomBytes } from "node:crypto";
import { MAX_HEADER_LENGTH, objectIn, TYPE } from "./rules.ts";

type SessionRefusal = "malformed" | "other-environment" | "unknown-key" | "signature" | "expired" | "too-early";

export class SessionRefused extends Error {
  readonly refusal: SessionRefusal;
  constructor(refusal: SessionRefusal) {
    super(`the session is refused: ${refusal}`);
    this.refusal = refusal;
  }
}

/** The first characters of every session: `{"` in base64url. No other token begins with these characters. */
const PREFIX = "eyJ";

export function newKeyId(): string {
  return randomBytes(16).toString("base64url");
}

/**
 * The header that `isSession` parsed last, including the dot after it. Sessions with the same key have the same header,
 * so `isSession` need not parse this header again.
 */
let lastHeader = PREFIX;

/** Returns whether a text has the header of a session. The session may be invalid. */
export function isSession(text: string): boolean {
  if (!text.startsWith(PREFIX)) return false;
  if (lastHeader !== PREFIX && text.startsWith(lastHeader)) return true;
  const head = text.slice(0, MAX_HEADER_LENGTH).split(".", 1)[0] as string;
  const isOne = objectIn(head)?.["typ"] === TYPE;
  if (isOne && text[head.length] === ".") lastHeader = `${head}.`;
  return isOne;
}
