import { randomBytes } from "node:crypto";
import {
  CLOCK_TOLERANCE_S,
  claimsOf as claimsIn,
  MAX_HEADER_LENGTH,
  objectIn,
  readSession,
  type SessionClaims,
  TYPE,
  type UnverifiedSession,
} from "./rules.ts";

/** Why a session is refused. */
export type SessionRefusal = "malformed" | "other-environment" | "unknown-key" | "signature" | "expired" | "too-early";

/** A text that looks like a session is refused. */
export class SessionRefused extends Error {
  override readonly name = "SessionRefused";
  readonly refusal: SessionRefusal;
  /** The id of the key, if it is unknown. */
  readonly kid: string | undefined;
  constructor(refusal: SessionRefusal, kid?: string) {
    super(`the session is refused: ${refusal}`);
    this.refusal = refusal;
    this.kid = kid;
  }
}

/** How the header of every session begins, and no other token does: `{"` in base64url. */
const PREFIX = "eyJ";

const KEY_ID = /^[\w-]{22}$/;

/** A new id of a key: 128 random bits. */
export function newKeyId(): string {
  return randomBytes(16).toString("base64url");
}

/** The header of the session that was last seen, and the dot behind it. Sessions by one key have the same. */
let lastHeader = PREFIX;

/** Whether a text is treated as a session, valid or not, and as nothing else: its header says so. */
export function isSession(text: string): boolean {
  if (!text.startsWith(PREFIX)) return false;
  if (lastHeader !== PREFIX && text.startsWith(lastHeader)) return true;
  const head = text.slice(0, MAX_HEADER_LENGTH).split(".", 1)[0] as string;
  const isOne = objectIn(head)?.["typ"] === TYPE;
  if (isOne && text[head.length] === ".") lastHeader = `${head}.`;
  return isOne;
}

/** The id of the key and the claims of a session, before its signature is checked. @throws SessionRefused */
export function unverified(session: string): UnverifiedSession {
  const read = readSession(session);
  if (!read || !KEY_ID.test(read.kid) || typeof read.payload["iss"] !== "string") throw new SessionRefused("malformed");
  return read;
}

/** The claims of a session whose signature is right. @throws SessionRefused if this service would not make such claims */
export function claimsOf(payload: UnverifiedSession["payload"]): SessionClaims {
  const claims = claimsIn(payload);
  if (!claims) throw new SessionRefused("malformed");
  return claims;
}

/**
 * Refuses a session that is not valid at a time, in milliseconds since 1970. There is no tolerance at its end, because a
 * session must not outlast the grace period of its token.
 *
 * @throws SessionRefused
 */
export function requireTime({ iat, exp }: SessionClaims, now: number): void {
  const seconds = now / 1000;
  if (seconds >= exp) throw new SessionRefused("expired");
  if (iat > seconds + CLOCK_TOLERANCE_S) throw new SessionRefused("too-early");
}
