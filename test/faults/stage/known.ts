import type { EnvironmentId } from "./workers.ts";

/** A requested group, and its values that callers have read. */
export interface Known {
  readonly environment: EnvironmentId;
  readonly id: string;
  /** Tokens seen so far. The latest is last. */
  readonly tokens: string[];
}

/** Number of tokens remembered for a group. */
const REMEMBERED = 6;

/** Records a new token as the latest. If the group may not have received the token, records it as an earlier one. */
export function remember(tokens: string[], token: string, isGiven = true): void {
  if (tokens.includes(token)) return;
  tokens.splice(isGiven ? tokens.length : Math.max(0, tokens.length - 1), 0, token);
  if (tokens.length > REMEMBERED) tokens.shift();
}
