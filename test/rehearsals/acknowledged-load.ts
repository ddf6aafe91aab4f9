import { repeat } from "@user-group-service/testing/repeat";
import { CallFailure, type CallHeaders, type ServiceClient } from "../support/clients/types.ts";
import { CallTally, type Figures } from "./call-tally.ts";

/** Duration of each state of a rehearsal, in milliseconds. */
export const PHASE_MS = 5000;

const LOOPS = 8;

/** Share of turns in which a loop rotates its token and creates another group. */
const EVERY = 4;

/** A load that checks every answer, and remembers acknowledged changes. */
export interface AcknowledgedLoad {
  /** Returns and prints the calls, the failures, and the longest read and change in this time. */
  during(name: string, work: number | (() => Promise<unknown>)): Promise<Figures>;
  /**
   * Stops the load, and reads every acknowledged change through every client.
   *
   * @returns the number of acknowledged changes, and what was wrong: answers, errors, or lost changes
   */
  end(): Promise<{ readonly acknowledged: number; readonly wrong: readonly string[] }>;
}

/**
 * Starts loops that read, rename, rotate and create groups. Each changes its group through one client and reads it
 * through the next.
 *
 * @param kinds clients by kind; each kind gets the same number of loops
 * @param headers headers of every call
 * @param mayFail errors that every call may have; default: none
 */
export async function beginAcknowledgedLoad(
  kinds: readonly (readonly ServiceClient[])[],
  headers: CallHeaders,
  mayFail?: RegExp,
): Promise<AcknowledgedLoad> {
  const tally = new CallTally();
  const wrong: string[] = [];
  let acknowledged = 0;
  const same = (what: string, read: unknown, possible: readonly unknown[]) => {
    if (!possible.includes(read)) wrong.push(`${what}: ${read} in place of ${possible.join(" or ")}`);
  };
  const tell = (error: unknown) => {
    const { message } = error as Error;
    tally.fault(message);
    if (!mayFail?.test(message)) wrong.push(message);
  };
  const changed = async <T>(kind: string, call: Promise<T>) => {
    const answer = await tally.timed(call, kind);
    acknowledged++;
    return answer;
  };
  const readOf = <T>(call: Promise<T>) => tally.timed(call, "read");

  const begin = async (i: number) => {
    const clients = kinds[i % kinds.length] as readonly ServiceClient[];
    const nth = Math.floor(i / kinds.length);
    const one = clients[nth % clients.length] as ServiceClient;
    const other = clients[(nth + 1) % clients.length] as ServiceClient;
    const id = `own ${i}`;
    const get = (client: ServiceClient, userGroupId = id) => client.getUserGroup({ userGroupId }, headers);
    const holderOf = async (client: ServiceClient, token: string) =>
      (await client.resolveViewer({ token }, headers)).viewer.providedId;
    const { group: first } = await get(one);
    // Possible names: the last acknowledged one, and later ones whose outcome is unknown.
    let names = [first.name];
    let current = first.token;
    // A failed rotation. The loop repeats it; until it succeeds, either token may be current.
    let rotation: string | undefined;
    let turns = 0;
    const made = new Map<string, string>();
    const turn = async () => {
      const n = ++turns;
      const name = `name ${n}`;
      try {
        const { group } = await changed("update", one.updateUserGroup({ userGroupId: id, name }, headers));
        same(`the new name of ${id}`, group.name, [name]);
        names = [name];
      } catch (error) {
        if (!(error instanceof CallFailure && error.outcome === "not_made")) names.push(name);
        tell(error);
      }
      const { group: read, newUserGroup } = await readOf(get(other));
      same(`the name of ${id}`, read.name, names);
      same(`the team id of ${id}`, read.teamId, [first.teamId]);
      same(`whether ${id} is new`, newUserGroup, [false]);
      if (rotation === undefined) {
        // Descriptions of wrong answers contain no token.
        same(`the token of ${id}`, read.token === current ? "as acknowledged" : "another", ["as acknowledged"]);
        same("whose token it is", await readOf(holderOf(other, current)), [id]);
      }
      if (n % EVERY !== 0) return;
      rotation ??= crypto.randomUUID();
      const rotate = one.rotateUserGroupToken({ userGroupId: id, requestId: rotation }, headers);
      current = (await changed("rotate", rotate)).group.token;
      rotation = undefined;
      const another = `${id} ${n}`;
      const { token } = (await changed("create", get(one, another))).group;
      made.set(another, token);
      same("whose new token it is", await readOf(holderOf(other, token)), [another]);
    };
    const check = async () => {
      for (const client of clients) {
        const { group: last } = await get(client);
        same(`at the end, the name of ${id}`, last.name, names);
        if (rotation === undefined) same("at the end, whose token it is", await holderOf(client, current), [id]);
      }
      for (const [another, text] of made) same("at the end, whose token it is", await holderOf(other, text), [another]);
    };
    return { turn: () => turn().catch(tell), check };
  };
  const loops = await Promise.all(Array.from({ length: LOOPS }, (_, i) => begin(i)));
  const turns = repeat(loops.map(({ turn }) => turn));
  return {
    during: (name, work) => tally.during(name, work),
    async end() {
      await turns.end();
      await Promise.all(loops.map(({ check }) => check()));
      return { acknowledged, wrong };
    },
  };
}
