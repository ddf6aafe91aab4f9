import { createClient } from "@connectrpc/connect";
import { pause } from "@user-group-service/testing/wait";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { openGrpcJsTransport } from "../support/clients/grpc-js-transport.ts";
import { CallTally, type Figures } from "./call-tally.ts";

/** How long a state of a rehearsal is looked at, in milliseconds. */
export const PHASE_MS = 5000;

const CLIENTS = 4;
const LOOPS = 8;

/** The share of turns in which a loop rotates its token, and makes another group. */
const EVERY = 4;

/** Calls whose answers are compared with what they have to be. */
export interface CheckedLoad {
  /** Tells how many calls were made meanwhile, how many failed or were wrong, and how long the longest took. */
  during(name: string, work: number | (() => Promise<unknown>)): Promise<Figures>;
  /** @returns what was wrong in all, and how often */
  end(): Promise<{ readonly [fault: string]: number }>;
}

/** Reads, updates, rotates, resolves and creates groups over grpc-js; what one client has changed, another one reads. */
export async function beginCheckedLoad(url: string, token: string): Promise<CheckedLoad> {
  const opened = Array.from({ length: CLIENTS }, () => openGrpcJsTransport(url));
  const clients = opened.map(({ transport }) => ({
    groups: createClient(UserGroupService, transport),
    viewers: createClient(ViewerService, transport),
  }));
  const options = { headers: { authorization: `Token ${token}` } };
  const faults: { [fault: string]: number } = {};
  const tally = new CallTally();
  const timed = <T>(call: Promise<T>) => tally.timed(call);
  let isEnding = false;
  const loop = async (i: number) => {
    const one = clients[i % CLIENTS] as (typeof clients)[0];
    const other = clients[(i + 1) % CLIENTS] as (typeof clients)[0];
    const userGroupId = `own ${i}`;
    const { userGroup: made } = await one.groups.getUserGroup({ userGroupId }, options);
    let current = made?.token ?? "";
    const same = (what: string, read: unknown, expected: unknown) => {
      if (read !== expected) throw new Error(`wrong answer: ${what}`);
    };
    const turn = async (n: number) => {
      const name = `name ${n}`;
      await timed(one.groups.updateUserGroup({ userGroupId, name }, options));
      const { userGroup, newUserGroup } = await timed(other.groups.getUserGroup({ userGroupId }, options));
      same("name", userGroup?.name, name);
      same("team id", userGroup?.teamId, made?.teamId);
      same("token", userGroup?.token, current);
      same("it is new", newUserGroup, false);
      const resolved = await timed(other.viewers.resolveViewer({ token: current }, options));
      same("whose token it is", resolved.providedId, userGroupId);
      if (n % EVERY !== 0) return;
      const rotation = { group: { case: "userGroupId", value: userGroupId } as const, requestId: crypto.randomUUID() };
      const rotated = await timed(one.groups.rotateUserGroupToken(rotation, options));
      current = rotated.userGroup?.token ?? "";
      const another = `${userGroupId} ${n}`;
      const created = await timed(one.groups.getUserGroup({ userGroupId: another }, options));
      const found = await timed(other.viewers.resolveViewer({ token: created.userGroup?.token ?? "" }, options));
      same("whose new token it is", found.providedId, another);
    };
    for (let n = 1; !isEnding; n++) {
      await turn(n).catch((error: unknown) => {
        const text = String((error as Error).message);
        faults[text] = (faults[text] ?? 0) + 1;
        tally.fault(text);
      });
      await pause(Math.random() * 8);
    }
  };
  const loops = Array.from({ length: LOOPS }, (_, i) => loop(i));
  return {
    during: (name, work) => tally.during(name, work),
    async end() {
      isEnding = true;
      await Promise.all(loops);
      for (const { close } of opened) close();
      return faults;
    },
  };
}
