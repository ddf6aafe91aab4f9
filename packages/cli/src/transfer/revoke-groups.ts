import { randomUUID } from "node:crypto";
import { type Duration, durationMs, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { reasonOf } from "@user-group-service/client";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { EXIT, Failure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import { confirm } from "../questions.ts";
import { connect, type Session } from "../session.ts";
import { type PatienceOptions, patiently } from "./patience.ts";
import { count, Progress } from "./progress.ts";
import { groupPages, openTarget, type Target, transferFailure } from "./target.ts";

/** Whose tokens are revoked, and how. */
export interface Revocations {
  readonly environment: EnvironmentName | undefined;
  /** The beginning of the ids of the groups; undefined: all groups of the environment. */
  readonly prefix: string | undefined;
  /** Tokens made before this time are revoked. Undefined: now. */
  readonly before: Timestamp | undefined;
  /** How long a token that is replaced stays valid; undefined: it ends at once. */
  readonly grace: Duration | undefined;
  readonly isSure: boolean;
}

/** How many calls are in flight. */
const AT_ONCE = 8;

/** How many of the groups whose record cannot be read are named, at most. */
const MAX_NAMED = 10;

/**
 * Revokes the tokens of many groups that were made before a time. With the time of a run that was cut off, it continues
 * that run, because the tokens that the run made are younger. @throws Failure
 */
export async function revokeGroups(session: Session, given: Revocations): Promise<void> {
  const { shell, out } = session;
  const { prefix = "", grace } = given;
  const target = await openTarget(session, given.environment);
  const { snapshotTime } = await (await connect(session)).admin.exportUserGroups({ ...named(target), pageSize: 1 });
  const now = timestampMs(snapshotTime as Timestamp);
  const before = Math.min(now, given.before ? timestampMs(given.before) : now);
  const time = new Date(before).toISOString();
  const whose = `user groups of ${target.name}${prefix && ` whose ids begin with ${prefix}`}`;
  const consequence = `This ends the tokens of all ${whose} made before ${time}${grace ? "" : ": dashboards that have one show nothing until their back end gets the new one"}`;
  await confirm(shell, { what: `the tokens of all ${whose}`, id: prefix || target.name, consequence }, given.isSure);
  out.note(`Tokens made before ${time} are revoked.`);
  const goOn = `to go on where it was cut off, run it again with --before ${time}`;

  /**
   * Whether a token is valid that may have been made before the time. The service does not store when a token in its grace
   * period was made. A grace period no longer than the given one may come from a run that was cut off, so it does not count.
   */
  const isDue = ({ tokenCreateTime, graceExpireTime }: UserGroupInfo) =>
    (tokenCreateTime && timestampMs(tokenCreateTime) <= before) ||
    (graceExpireTime && timestampMs(graceExpireTime) > now + (grace ? durationMs(grace) : 0));

  const progress = new Progress(shell.stderr, "looked at");
  const patience = { signal: shell.signal, onPause: (ms: number, why: string) => progress.pause(ms, why) };
  const done = { revoked: 0, left: 0 };
  const unreadable: string[] = [];
  try {
    for await (const page of groupPages(target, { prefix, ...patience })) {
      for (let i = 0; i < page.length; i += AT_ONCE) {
        const results = page.slice(i, i + AT_ONCE).map(async (userGroup) => {
          if (!isDue(userGroup)) done.left += 1;
          else if (await revoke(target, { userGroupId: userGroup.providedId, grace, patience })) done.revoked += 1;
          else unreadable.push(userGroup.providedId);
        });
        await Promise.all(results);
        const groups = done.revoked + done.left + unreadable.length;
        progress.tell({ groups, fraction: prefix === "" && target.count > 0 ? groups / target.count : undefined });
      }
    }
  } catch (error) {
    progress.end();
    if (shell.signal.aborted) out.note(goOn);
    throw transferFailure(error, target.connection, goOn);
  }
  progress.end();
  const summary = { environment: target.name, before: time, ...done };
  if (out.isJson) await out.line(jsonLine({ summary }));
  else
    await out.line(
      `The tokens of ${count(done.revoked)} user groups are revoked; ${count(done.left)} had none made before ${time}.`,
    );
  if (unreadable.length === 0) return;
  const names = unreadable.slice(0, MAX_NAMED).join(", ");
  throw new Failure(`the records of ${unreadable.length} user groups cannot be read, and their tokens stay: ${names}`, {
    exitCode: EXIT.incomplete,
    hint: "have the operator look at TOKEN_KEYS and the stored data, or delete these groups",
  });
}

/** Revokes the tokens of a group once, however often the call is made. @returns whether its record can be read */
async function revoke(
  target: Target,
  given: {
    readonly userGroupId: string;
    readonly grace: Duration | undefined;
    readonly patience: PatienceOptions;
  },
): Promise<boolean> {
  const { userGroupId, grace, patience } = given;
  const request = {
    ...{ ...named(target), userGroupId, requestId: randomUUID() },
    ...(grace && { previousTokenTtl: grace }),
  };
  try {
    await patiently(patience, () => target.admin.revokeUserGroupTokens(request));
  } catch (error) {
    const reason = error instanceof ConnectError ? reasonOf(error) : undefined;
    if (reason === "RECORD_UNREADABLE") return false;
    // A group that was deleted has no tokens.
    if (reason !== "USER_GROUP_NOT_FOUND") throw error;
  }
  return true;
}

function named({ environment }: Target) {
  return environment && { environment };
}
