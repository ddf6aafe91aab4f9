import type { EnvironmentId } from "./workers.ts";

/** A group that is asked for, and what is known of it. */
export interface Known {
  readonly environment: EnvironmentId;
  readonly id: string;
  /** Tokens that were seen, the latest last. */
  readonly tokens: string[];
}

/** Tokens of a group that are remembered. */
const REMEMBERED = 6;

/** Remembers a token as the latest, unless it is known; or, when it is not sure that it was given, as an earlier one. */
export function remember(tokens: string[], token: string, isGiven = true): void {
  if (tokens.includes(token)) return;
  tokens.splice(isGiven ? tokens.length : Math.max(0, tokens.length - 1), 0, token);
  if (tokens.length > REMEMBERED) tokens.shift();
}
