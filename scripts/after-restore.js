/*
 * Prints the changes that must be repeated after Redis was restored from a backup. The restore brings back tokens,
 * groups and environments that were revoked or deleted after the backup. The input is the audit trail of an environment
 * since the time of the backup, in the format of `ugs audit --json`. The output is a list of `ugs` commands. To create
 * and run this list:
 *
 *   ugs audit --env ENV --since TIME --limit 1000000 --json > trail.jsonl
 *   node scripts/after-restore.js ENV < trail.jsonl > again.sh
 *   sh -e again.sh
 *
 * Run the first command before the restore, or later on a copy of the old data. Read again.sh before you run it. The
 * commands in again.sh are safe to repeat. If a token or group does not exist, its command changes nothing.
 */
import { text } from "node:stream/consumers";

const [environment, ...others] = process.argv.slice(2);
if (environment === undefined || others.length > 0 || !/^[\w.-]+(?:\/\w+)?$/.test(environment)) {
  console.error("usage: node scripts/after-restore.js NAME/TAG < trail.jsonl > again.sh");
  process.exit(2);
}

function eventOf(line, i) {
  try {
    const event = JSON.parse(line);
    if (typeof event.method === "string" && typeof event.createTime === "string") return event;
  } catch {}
  console.error(`line ${i + 1} is not an audit event: pass the complete output of \`ugs audit --json\``);
  process.exit(1);
}

const lines = (await text(process.stdin)).split("\n");
const events = lines.flatMap((line, i) => (line.trim() === "" ? [] : [eventOf(line, i)]));
if (events.length === 0) {
  console.error("no events: if the trail covers the time since the backup, you do not need to repeat any change");
}
// The input has the newest events first. Reverse the input, and then sort by time. The sort is stable, so events with
// the same time stay in the reversed order.
events.reverse().sort((one, other) => Date.parse(one.createTime) - Date.parse(other.createTime));

/** Maps each id to the methods of the events whose `field` contains this id. The oldest method is first. */
function methodsBy(field) {
  const found = new Map();
  for (const event of events) {
    const id = event[field];
    if (!id) continue;
    const isImport = event.method === "ImportUserGroups";
    const methods = [
      ...(isImport && event.changedFields?.includes("token") ? ["RotateUserGroupToken"] : []),
      ...(isImport && event.changedFields?.includes("suspension") ? ["SuspendUserGroup"] : []),
    ];
    found.set(id, [...(found.get(id) ?? []), ...(methods.length > 0 ? methods : [event.method])]);
  }
  return found;
}

/** Quotes a text as one word for the shell. */
const quoted = (word) => `'${word.replaceAll("'", "'\\''")}'`;
const write = (command) => console.log(`${command} || [ $? -eq 3 ]`);
const ENV = `--env ${quoted(environment)}`;

const ofEnvironment = events.filter(({ userGroupId, apiTokenId }) => !userGroupId && !apiTokenId);
const lastChange = ofEnvironment.findLast(({ method }) => /^(?:Create|Delete)Environment$/.test(method));
if (lastChange?.method === "DeleteEnvironment") {
  write(`ugs env delete ${quoted(environment)} --force --yes`);
  process.exit();
}

if (ofEnvironment.some(({ method, actorId }) => method === "RotateSigningKey" && actorId !== "service"))
  console.log(
    "# signing keys: the restore has undone a rotation; if an old key has leaked, run: ugs signing-key rotate --end-sessions",
  );
for (const [id, methods] of methodsBy("apiTokenId")) {
  if (methods.includes("RevokeApiToken")) write(`ugs token revoke ${ENV} --yes -- ${quoted(id)}`);
  else if (methods.includes("RotateApiToken")) {
    // The restore has removed the new secret, and the old secret is valid again. So the token must be rotated again. If
    // the file exists, an earlier run of this command has already rotated the token.
    const file = quoted(`${id}.token`);
    write(`[ -e ${file} ] || ugs token rotate ${ENV} --out ${file} -- ${quoted(id)}`);
  } else if (methods.includes("CreateApiToken"))
    console.log(`# API token ${id} is lost if it was created after the backup: create another token`);
  else console.log(`# API token ${id}: an update of the name or expiry time is lost: repeat ugs token update`);
}
for (const [id, methods] of methodsBy("userGroupId")) {
  // Events after the deletion of a group concern a new group with the same id.
  const last = methods
    .slice(methods.lastIndexOf("DeleteUserGroup") + 1)
    .findLast((method) => /^(?:Suspend|Resume)UserGroup$/.test(method));
  // The audit trail contains neither the reason nor the message of a suspension.
  if (last) write(`ugs group ${last === "SuspendUserGroup" ? "suspend" : "resume"} ${ENV} -- ${quoted(id)}`);
  if (methods.at(-1) === "DeleteUserGroup") {
    write(`ugs group delete ${ENV} --yes -- ${quoted(id)}`);
  } else if (
    methods.some((method) => /^(?:DeleteUserGroup|RotateUserGroupToken|RevokeUserGroupTokens)$/.test(method))
  ) {
    write(`ugs group revoke ${ENV} --yes -- ${quoted(id)}`);
  } else {
    const named = `# user group ${JSON.stringify(id)}`;
    if (methods.includes("UpdateUserGroup")) console.log(`${named}: an update is lost: repeat the update`);
    if (methods.includes("RevokeViewerSessions"))
      console.log(`${named}: revoked sessions are valid again for up to an hour; run again: ugs viewer session revoke`);
  }
}
