import { signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { GetCallerResponse } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { formatEnvironmentName, parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { ENVIRONMENT_PARAM, route, stay } from "../routes.ts";
import { type Clients, openClients } from "./clients.ts";

/** The caller, and clients that send its token. Only the clients contain the token. */
export interface Session extends Clients {
  /** The number of the session, counted since the page was loaded. */
  readonly number: number;
  readonly caller: GetCallerResponse;
  /**
   * Whether the token is `ADMIN_TOKEN`. `ADMIN_TOKEN` can use every environment, so each request names an environment.
   */
  readonly isRoot: boolean;
  /** Aborts the calls of the session. */
  readonly end: () => void;
}

/** The session. Undefined: nobody is signed in. */
export const session = signal<Session | undefined>(undefined);

/** Why the last session ended. The sign-in shows it, unless it is empty. */
export const endedBecause = signal("");

/** The text in the token field of the sign-in. */
export const typedToken = signal("");

/** Whether a dialog asks for another token. */
export const isAskingAgain = signal(false);

/** The number of sessions since the page was loaded. */
let sessions = 0;

/** Aborts the sign-in, or ends its session. */
let ending = new AbortController();

/** How long a session lasts without activity, in milliseconds. */
const IDLE_MS = 15 * 60_000;

/**
 * Signs in with a token, and replaces the current session.
 *
 * @throws ConnectError of GetCaller; InvalidInput if the role of the token is too low
 */
export async function signIn(token: string): Promise<void> {
  // No token has other characters, and a header would refuse other characters.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new InvalidInput("A token has no spaces, and ASCII characters only.");
  const mine = new AbortController();
  ending = mine;
  const clients = openClients(token, mine.signal);
  const caller = await clients.admin.getCaller({});
  // The user may have left the page.
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
 * Ends the session or the sign-in. Removes every token, including a typed one, and all shown data.
 *
 * @param because the reason, shown on the sign-in page
 */
export function signOut(because = "You are signed out. The token is forgotten."): void {
  ending.abort();
  typedToken.value = "";
  isAskingAgain.value = false;
  stay();
  if (!session.value) return;
  session.value.end();
  session.value = undefined;
  endedBecause.value = because;
}

/** The time of the person's last action, by the wall clock, which advances while the machine sleeps. */
let lastAct = Date.now();

function requireActs(): void {
  if (Date.now() - lastAct >= IDLE_MS)
    signOut("You were signed out after 15 minutes without activity. The token is forgotten.");
}

/** Ends the session after `IDLE_MS` without activity, and when the user leaves the page. */
export function watchActs(): void {
  for (const type of ["keydown", "pointerdown", "wheel", "focusin"])
    addEventListener(
      type,
      () => {
        // After a machine wakes up, events of the user can arrive before its timers run.
        requireActs();
        lastAct = Date.now();
      },
      { capture: true, passive: true },
    );
  document.addEventListener("visibilitychange", requireActs);
  // A browser may keep a page after the user leaves it, and show it again.
  addEventListener("pagehide", () => signOut("You were signed out because the page was left."));
  setInterval(requireActs, 1000);
}

/** The session of the current page. */
export const PageSession = createContext<Session | undefined>(undefined);

/**
 * The session of the current page, with two more fields:
 *
 * - `environment`: the environment of the API token. For `ADMIN_TOKEN`, the one in the address, or undefined.
 * - `env`: the name of the environment for addresses and commands. Undefined for an API token, which implies it.
 */
export function useSession() {
  const current = useContext(PageSession);
  if (!current) throw new Error("nobody is signed in");
  const named = parseEnvironmentName(route.value.params[ENVIRONMENT_PARAM] ?? "");
  const env = current.isRoot && named ? formatEnvironmentName(named) : undefined;
  return { ...current, environment: current.caller.environment ?? named, env };
}
