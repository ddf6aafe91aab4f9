import { signal } from "@preact/signals";
import type { GetCallerResponse } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { ENVIRONMENT_PARAM, route } from "../routes.ts";
import { formatEnvironmentName, parseEnvironmentName } from "../words.ts";
import { type Clients, openClients } from "./clients.ts";
import { NotRight } from "./failures.ts";

/** Who is signed in, and what calls the service for them. The token itself is in the clients alone. */
export interface Session extends Clients {
  readonly caller: GetCallerResponse;
  /** Whether it is `ADMIN_TOKEN`: it makes and deletes environments, and has to name the one that it acts on. */
  readonly isRoot: boolean;
  /** Aborts at the end of the session. */
  readonly signal: AbortSignal;
  readonly end: () => void;
}

/** The session; undefined: nobody is signed in. */
export const session = signal<Session | undefined>(undefined);

/** Why the last session ended, for whoever is to sign in; empty: nothing is to be said. */
export const endedBecause = signal("");

/** The token that is typed to sign in with. */
export const typedToken = signal("");

/** Ends the sign-in that is under way, or the session that came of it. */
let ending = new AbortController();

/** How long nobody may do anything until the session ends, in milliseconds. */
export const IDLE_MS = 15 * 60_000;

/**
 * Signs in with a token that the service knows.
 *
 * @throws ConnectError of the call that asks whose it is; NotRight when its role is too low for everything here
 */
export async function signIn(token: string): Promise<void> {
  // Anything else is in no token, and a header would not take it.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new NotRight("A token has neither spaces nor letters outside of ASCII.");
  const mine = new AbortController();
  ending = mine;
  const clients = openClients(token, mine.signal);
  const caller = await clients.admin.getCaller({});
  // The page may have been left just now.
  mine.signal.throwIfAborted();
  if (caller.role !== "root" && caller.role !== "admin")
    throw new NotRight(
      `This is an API token of role ${caller.role}, which may do nothing here: sign in with one of role admin, or with ADMIN_TOKEN.`,
    );
  endedBecause.value = "";
  const isRoot = caller.role === "root";
  typedToken.value = "";
  session.value = { ...clients, caller, isRoot, signal: mine.signal, end: () => mine.abort() };
  lastAct = Date.now();
}

/** Ends the session: the token and all that is shown are forgotten. @param because said to whoever is to sign in */
export function signOut(because = "You are signed out. The token is forgotten."): void {
  if (!session.value) return;
  session.value.end();
  session.value = undefined;
  endedBecause.value = because;
}

/** When somebody last did something here, by the clock of the machine, which goes on while it sleeps. */
let lastAct = Date.now();

/** Forgets every token: that of the session, and one that is typed or is being signed in with. */
function forget(because: string): void {
  ending.abort();
  typedToken.value = "";
  signOut(because);
}

function requireActs(): void {
  if (Date.now() - lastAct >= IDLE_MS)
    forget("You were signed out, because nothing was done here for 15 minutes. The token is forgotten.");
}

/** Ends sessions in which nobody does anything, and those whose page is left. */
export function watchActs(): void {
  for (const type of ["keydown", "pointerdown", "wheel", "focusin"])
    addEventListener(
      type,
      () => {
        // A machine that wakes up tells of acts before timers.
        requireActs();
        lastAct = Date.now();
      },
      { capture: true, passive: true },
    );
  document.addEventListener("visibilitychange", requireActs);
  // A browser may keep a page that was left, to show it again at once.
  addEventListener("pagehide", () => forget("You are signed out, because the page was left."));
  setInterval(requireActs, 1000);
}

/** The environment that the page is of: that of an API token, or the one in the address; undefined: none is named there. */
export function environmentOf({ caller }: Pick<Session, "caller">): EnvironmentName | undefined {
  return caller.environment ?? parseEnvironmentName(route.value.params[ENVIRONMENT_PARAM] ?? "");
}

/** The environment as addresses have it; undefined where it goes without saying, or none is named. */
export function environmentParamOf({ isRoot }: Pick<Session, "isRoot">): { readonly env: string | undefined } {
  const named = isRoot ? parseEnvironmentName(route.value.params[ENVIRONMENT_PARAM] ?? "") : undefined;
  return { env: named && formatEnvironmentName(named) };
}
