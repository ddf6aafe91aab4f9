import { randomUUID } from "node:crypto";
import { type Duration, durationMs, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { countText } from "../../../operator/src/words.ts";
import { EXIT, Failure, reasonOf } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import { confirm } from "../questions.ts";
import type { Session } from "../session.ts";
import { patiently } from "./patience.ts";
import { count } from "./progress.ts";
import { continuable, groupPages, openTarget, type Target } from "./target.ts";

interface Revocations {
  readonly environment: EnvironmentName | undefined;
  /** The prefix of the ids. If undefined, all groups of the environment are selected. */
  readonly prefix: string | undefined;
  /** Selects tokens that were created before this time. If undefined, the current time is used. */
  readonly before: Timestamp | undefined;
  /** The time for which a replaced token stays valid. If undefined, the token is revoked immediately. */
  readonly grace: Duration | undefined;
  readonly isSure: boolean;
}

const AT_ONCE = 8;

const MAX_NAMED = 10;

/** Revokes the tokens of all selected groups. To continue an interrupted run, pass its `before` again. */
export async function revokeGroups(session: Session, given: Revocations): Promise<void> {
  const { shell, out } = session;
  const { prefix = "", grace } = given;
  const target = await openTarget(session, given.environment, "read");
  const { snapshotTime } = await target.admin.exportUserGroups({ environment: target.environment, pageSize: 1 });
  const now = timestampMs(snapshotTime as Timestamp);
  const before = Math.min(now, given.before ? timestampMs(given.before) : now);
  const time = new Date(before).toISOString();
  const whose = `user groups of ${target.name}${prefix && ` with ids that start with ${prefix}`}`;
  const consequence = `For all ${whose}, this revokes the tokens created before ${time}${grace ? "" : ": dashboards with a revoked token show nothing until they have a new token"}`;
  await confirm(shell, { id: prefix || target.name, consequence }, given.isSure);
  out.note(`Revoking tokens created before ${time}.`);

  /**
   * Returns whether a group has a valid token that may be older than `before`. The service does not store the creation
   * time of a token in its grace period, so such a token counts as older. But a token whose grace period ends within
   * `grace` from now does not count, because an interrupted run may have started this grace period.
   */
  const isDue = ({ tokenCreateTime, graceExpireTime }: UserGroupInfo) =>
    (tokenCreateTime && timestampMs(tokenCreateTime) <= before) ||
    (graceExpireTime && timestampMs(graceExpireTime) > now + (grace ? durationMs(grace) : 0));

  const done = { revoked: 0, left: 0 };
  const unreadable: string[] = [];
  await continuable(session, target, `to continue, run the same command again with --before ${time}`, async () => {
    for await (const page of groupPages(target, prefix)) {
      for (let i = 0; i < page.length; i += AT_ONCE) {
        const results = page.slice(i, i + AT_ONCE).map(async (userGroup) => {
          if (!isDue(userGroup)) done.left += 1;
          else if (await revoke(target, userGroup.providedId, grace)) done.revoked += 1;
          else unreadable.push(userGroup.providedId);
        });
        await Promise.all(results);
        const groups = done.revoked + done.left + unreadable.length;
        const fraction = prefix === "" && target.count > 0 ? groups / target.count : undefined;
        target.progress.show({ groups, fraction });
      }
    }
  });
  const summary = { environment: target.name, before: time, ...done };
  if (out.isJson) await out.line(jsonLine({ summary }));
  else
    await out.line(
      `Revoked the tokens of ${countText(done.revoked, "user group")}; ${count(done.left)} had no token created before ${time}.`,
    );
  if (unreadable.length === 0) return;
  const names = unreadable.slice(0, MAX_NAMED).join(", ");
  throw new Failure(
    `the records of ${countText(unreadable.length, "user group")} cannot be read, so their tokens stay valid: ${names}`,
    {
      exitCode: EXIT.incomplete,
      hint: "delete these groups, or ask the operator of the service to check TOKEN_KEYS and the stored data",
    },
  );
}

/**
 * Revokes the tokens of a group. All retries have the same request id, so the service makes the change at most once.
 *
 * @returns false if the stored group cannot be read
 */
async function revoke(
  { adminOnce, environment, patience }: Target,
  userGroupId: string,
  previousTokenTtl: Duration | undefined,
): Promise<boolean> {
  const request = { environment, userGroupId, previousTokenTtl, requestId: randomUUID() };
  try {
    await patiently(patience, () => adminOnce.revokeUserGroupTokens(request));
  } catch (error) {
    const reason = reasonOf(error);
    if (reason === "RECORD_UNREADABLE") return false;
    if (reason !== "USER_GROUP_NOT_FOUND") throw error;
  }
  return true;
}
