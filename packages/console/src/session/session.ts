import { signal } from "@preact/signals";
import type { GetCallerResponse } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { formatEnvironmentName, parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { route, stay } from "../routes.ts";
import { type Clients, openClients } from "./clients.ts";

/** The signed-in caller, and clients that send the token of the caller. */
export interface Session extends Clients {
  /** Counts the sessions since the page was loaded. The first session has the number 1. */
  readonly number: number;
  readonly caller: GetCallerResponse;
  /** Whether the token is `ADMIN_TOKEN`. If so, a request about one environment must name this environment. */
  readonly isRoot: boolean;
  readonly end: () => void;
}

/** The current session. Undefined if nobody is signed in. */
export const session = signal<Session | undefined>(undefined);

/** The reason for the last sign-out. The sign-in page shows this text. A new sign-in clears the text. */
export const endedBecause = signal("");

export const typedToken = signal("");

/** Whether the dialog for a new sign-in is open. */
export const isAskingAgain = signal(false);

let sessions = 0;

/** Aborts the latest sign-in. If this sign-in has created a session, aborts the calls of the session. */
let ending = new AbortController();

/** The session ends after this time without user activity, in milliseconds. */
const IDLE_MS = 15 * 60_000;

/**
 * Signs in with a token, and replaces the current session.
 *
 * @throws ConnectError if the call of GetCaller fails
 * @throws InvalidInput if the token has invalid characters, or a role that is too low
 */
export async function signIn(token: string): Promise<void> {
  // Tokens contain only these characters. Many other characters are not allowed in a header.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new InvalidInput("A token contains no spaces, and only ASCII characters.");
  const mine = new AbortController();
  ending = mine;
  const clients = openClients(token, mine.signal);
  const caller = await clients.admin.getCaller({});
  // If the user has left the page during the call, `signOut` has aborted the sign-in.
  mine.signal.throwIfAborted();
  if (caller.role !== "root" && caller.role !== "admin")
    throw new InvalidInput(
      `This API token has the role ${caller.role}, which may not use the console. Sign in with an API token of role admin, or with ADMIN_TOKEN.`,
    );
  endedBecause.value = "";
  const isRoot = caller.role === "root";
  typedToken.value = "";
  isAskingAgain.value = false;
  session.value?.end();
  sessions += 1;
  session.value = { ...clients, number: sessions, caller, isRoot, end: () => mine.abort() };
  lastAct = Date.now();
}

/**
 * Ends the session or a sign-in in progress. The console then stores no token and shows no data of the session.
 *
 * @param because the reason for the sign-out. The sign-in page shows this text
 */
export function signOut(because = "You are signed out. The console no longer stores the token."): void {
  ending.abort();
  typedToken.value = "";
  isAskingAgain.value = false;
  stay();
  if (!session.value) return;
  session.value.end();
  session.value = undefined;
  endedBecause.value = because;
}

/** The time of the last user activity. It is from `Date.now()`, which advances even while the machine sleeps. */
let lastAct = Date.now();

function requireActs(): void {
  if (Date.now() - lastAct >= IDLE_MS)
    signOut("You were signed out after 15 minutes without activity. The console no longer stores the token.");
}

/** Ends the session after `IDLE_MS` without user activity, or when the user leaves the page. */
export function watchActs(): void {
  for (const type of ["keydown", "pointerdown", "wheel", "focusin"])
    addEventListener(
      type,
      () => {
        // After the machine wakes up, this event may arrive before the timer runs. An expired session must end before
        // the event counts as activity.
        requireActs();
        lastAct = Date.now();
      },
      { capture: true, passive: true },
    );
  document.addEventListener("visibilitychange", requireActs);
  // When the user leaves, the browser may keep the page in memory. Without a sign-out, the Back button would show the
  // session again.
  addEventListener("pagehide", () => signOut("You were signed out because you left the page."));
  setInterval(requireActs, 1000);
}

/**
 * Returns the current session, with two additional fields:
 *
 * - `environment`: the environment of the API token. With `ADMIN_TOKEN`, this is the environment in the address, or
 *   undefined if the address contains no valid environment.
 * - `env`: the name of the environment for links and `ugs` commands. With `ADMIN_TOKEN`, this is the name of
 *   `environment`. With an API token, `env` is undefined, because the token determines the environment.
 */
export function useSession() {
  const current = session.value;
  if (!current) throw new Error("nobody is signed in");
  const named = parseEnvironmentName(route.value.params.env ?? "");
  const env = current.isRoot && named ? formatEnvironmentName(named) : undefined;
  return { ...current, environment: current.caller.environment ?? named, env };
}
