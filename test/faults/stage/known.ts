import type { EnvironmentId } from "./workers.ts";

/** A group that callers use, and the tokens that callers have received for this group. */
export interface Known {
  readonly environment: EnvironmentId;
  readonly id: string;
  /** Received tokens. The latest token is last. */
  readonly tokens: string[];
}

const REMEMBERED = 6;

/**
 * Adds a token to the end of `tokens`. If `isGiven` is false, it is unknown whether the group has the token. In this
 * case, adds the token before the last token.
 */
export function remember(tokens: string[], token: string, isGiven = true): void {
  if (tokens.includes(token)) return;
  tokens.splice(isGiven ? tokens.length : Math.max(0, tokens.length - 1), 0, token);
  if (tokens.length > REMEMBERED) tokens.shift();
}
