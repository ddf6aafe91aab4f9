import { execFileSync } from "node:child_process";
import { ROOT } from "@user-group-service/testing/process";
import { expect, it } from "vitest";

/**
 * Runs after-restore.js, and returns the printed commands. `events` have the format of `ugs audit --json`, oldest
 * first.
 */
function commandsOf(...events: readonly object[]): string[] {
  const input = events
    .toReversed()
    .map((event) => JSON.stringify(event))
    .join("\n");
  const script = `${ROOT}/scripts/after-restore.js`;
  return execFileSync(process.execPath, [script, "acme/Customer"], { input, encoding: "utf8" }).trimEnd().split("\n");
}

const about = (userGroupId: string, method: string, createTime: string, changedFields: readonly string[] = []) => {
  return { userGroupId, method, createTime: `2026-01-31T08:00:0${createTime}Z`, changedFields };
};

it("after-restore.js prints a revoke command for a deleted and recreated group, and a delete command for a deleted group", () => {
  const deleted = (id: string) => about(id, "DeleteUserGroup", "0");
  expect(
    commandsOf(
      ...[deleted("called"), about("called", "GetUserGroup", "0")],
      ...[deleted("imported"), about("imported", "ImportUserGroups", "0.001", ["name", "token"])],
      ...[deleted("tokenless"), about("tokenless", "ImportUserGroups", "0.001", ["name"])],
      ...[about("gone", "GetUserGroup", "0"), about("gone", "DeleteUserGroup", "0.5")],
    ),
  ).toEqual([
    ...["called", "imported", "tokenless"].map(
      (id) => `ugs group revoke --env 'acme/Customer' --yes -- '${id}' || [ $? -eq 3 ]`,
    ),
    "ugs group delete --env 'acme/Customer' --yes -- 'gone' || [ $? -eq 3 ]",
  ]);
});

it("after-restore.js prints a suspend or resume command, depending on the last event of the group", () => {
  const command = (name: string, id: string) => `ugs group ${name} --env 'acme/Customer' -- '${id}' || [ $? -eq 3 ]`;
  const commands = commandsOf(
    ...[about("dark", "ResumeUserGroup", "0"), about("dark", "SuspendUserGroup", "1")],
    ...[about("back", "SuspendUserGroup", "0"), about("back", "ResumeUserGroup", "1")],
    about("imported", "ImportUserGroups", "0", ["name", "suspension"]),
    ...[about("gone", "SuspendUserGroup", "0"), about("gone", "DeleteUserGroup", "1")],
  );
  expect(commands).toEqual([
    ...[command("suspend", "dark"), command("resume", "back"), command("suspend", "imported")],
    "ugs group delete --env 'acme/Customer' --yes -- 'gone' || [ $? -eq 3 ]",
  ]);
});

it("after-restore.js prints comments about revoked viewer sessions and rotated signing keys", () => {
  const rotated = (actorId: string) => ({
    ...about("", "RotateSigningKey", "1", ["signing_keys"]),
    ...{ userGroupId: undefined, actorId },
  });
  const commands = commandsOf(
    ...[about("left", "RevokeViewerSessions", "0"), about("left", "UpdateUserGroup", "1")],
    ...[about("revoked", "RevokeViewerSessions", "0"), about("revoked", "RevokeUserGroupTokens", "1")],
    rotated("root"),
  );
  expect(commands.map((line) => line.replace(/(:| --env) .*/, ""))).toEqual([
    "# signing keys",
    '# user group "left"',
    '# user group "left"',
    "ugs group revoke",
  ]);
  expect(commandsOf(rotated("service"))).toEqual([""]);
});
