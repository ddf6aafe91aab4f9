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

type SessionRefusal = "malformed" | "other-environment" | "unknown-key" | "signature" | "expired" | "too-early";

export class SessionRefused extends Error {
  override readonly name = "SessionRefused";
  readonly refusal: SessionRefusal;
  /** The key id of a session with the refusal `unknown-key`. */
  readonly kid: string | undefined;
  constructor(refusal: SessionRefusal, kid?: string) {
    super(`the session is refused: ${refusal}`);
    this.refusal = refusal;
    this.kid = kid;
  }
}

/** The first characters of every session: `{"` in base64url. No other token begins with these characters. */
const PREFIX = "eyJ";

const KEY_ID = /^[\w-]{22}$/;

export function newKeyId(): string {
  return randomBytes(16).toString("base64url");
}

/**
 * The header that `isSession` parsed last, including the dot after the header. Sessions with the same key have the same
 * header. If a text begins with this header, `isSession` need not parse it.
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

export function unverified(session: string): UnverifiedSession {
  const read = readSession(session);
  if (!read || !KEY_ID.test(read.kid) || typeof read.payload["iss"] !== "string") throw new SessionRefused("malformed");
  return read;
}

/** Checks the claims. @throws SessionRefused if the service never creates claims of this form */
export function claimsOf(payload: UnverifiedSession["payload"]): SessionClaims {
  const claims = claimsIn(payload);
  if (!claims) throw new SessionRefused("malformed");
  return claims;
}

/**
 * Checks that a session is valid now. The expiry time has no tolerance, because a session must not outlast the grace
 * period of its token.
 *
 * @throws SessionRefused if the session is not valid at `now`, in milliseconds since 1970
 */
export function requireTime({ iat, exp }: SessionClaims, now: number): void {
  const seconds = now / 1000;
  if (seconds >= exp) throw new SessionRefused("expired");
  if (iat > seconds + CLOCK_TOLERANCE_S) throw new SessionRefused("too-early");
}
