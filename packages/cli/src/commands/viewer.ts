import type { JsonObject } from "@bufbuild/protobuf";
import {
  CreateViewerSessionResponseSchema,
  ResolveViewerResponseSchema,
  type ViewerSession,
} from "../../../../gen/usergroup/v1/viewer_service_pb.ts";
import { usageFailure } from "../failures.ts";
import { readPlainFile } from "../files.ts";
import { parseJsonObject } from "../json-object.ts";
import { mappingText, propertiesText } from "../output/group.ts";
import type { Facts } from "../output/output.ts";
import { timeText } from "../output/words.ts";
import { confirm } from "../questions.ts";
import { readToken } from "../secret-input.ts";
import { connect } from "../session.ts";
import { ttlOf } from "../times.ts";
import { type DefineCommand, runs } from "./command.ts";
import {
  type EnvironmentOption,
  environmentOf,
  environmentOption,
  nonEmpty,
  type OutOptions,
  outFileOf,
  withOut,
  type YesOption,
  yesOption,
} from "./options.ts";

/** `ugs viewer ...` */
export const viewerCommands: DefineCommand = (viewer, shell) => {
  const resolve = viewer
    .command("resolve")
    .description("which user group a token or a viewer session stands for; exit code 3 when it stands for none")
    .option("--from-file <file>", "a file with it; by default it is asked for, or read from standard input")
    .option("--audience <text>", "take a viewer session only if it was made for this audience");
  runs(resolve, shell, async (session, options: ResolveOptions) => {
    const audience = givenText("--audience", options.audience);
    const { viewers } = await connect(session);
    const token = await readToken(shell, "User group token or viewer session", options.fromFile);
    const found = await viewers.resolveViewer({ token, audience });
    await session.out.record(ResolveViewerResponseSchema, found, [
      ["group", found.providedId],
      ["name", found.name],
      ["team id", String(found.teamId)],
      ["mapping", mappingText(found.mapping)],
      ["properties", propertiesText(found.properties)],
      ["token ends", timeText(found.tokenExpireTime)],
      ...(found.session ? sessionFacts(found.session) : []),
    ]);
  });

  sessionCommands(viewer.command("session").description("viewer sessions: create, revoke"), shell);
};

/** `ugs viewer session ...` */
const sessionCommands: DefineCommand = (viewerSession, shell) => {
  const create = withOut(viewerSession.command("create"))
    .description("make a viewer session of a user group, which is shown this once, or written to the file of --out")
    .requiredOption("--audience <text>", "who is to take it: what verifies it expects this text")
    .option("--group <id>", "which group; by default the one whose token is asked for, or read from standard input")
    .option("--from-file <file>", "a file with the token of the group, in place of --group")
    .option("--ttl <duration>", "how long it lasts: 60s to 1h, or less as the service is set; default: 10m")
    .option("--viewer <id>", "the person within the group, by whom it can be ended")
    .option("--origin <origin>", "of the page that is to hold it, such as https://app.example.com")
    .option("--property <key...>", "properties of the group that it shows to whoever has it; default: none")
    .option("--claims <json>", "what else it shows: a JSON object, or a file with one");
  runs(create, shell, async (session, options: CreateOptions) => {
    const { group, fromFile, audience, origin, property: propertyKeys } = options;
    if (group !== undefined && fromFile !== undefined)
      throw usageFailure("one of --group and --from-file says which group it is: give one");
    const viewerId = givenText("--viewer", options.viewer);
    const ttl = ttlOf("--ttl", options.ttl);
    const claims = options.claims === undefined ? undefined : await claimsOf(options.claims);
    const file = await outFileOf(options);
    const { viewers } = await connect(session);
    const which =
      group === undefined
        ? { case: "token" as const, value: await readToken(shell, "User group token", fromFile) }
        : { case: "userGroupId" as const, value: group };
    const request = { group: which, audience, ttl, viewerId, origin, propertyKeys, claims };
    const answer = await viewers.createViewerSession(request);
    const times = `It ends ${timeText(answer.expireTime)}; make the next one at ${timeText(answer.refreshTime)}`;
    const said = `Viewer session ${answer.id}, for ${audience}. ${times}. It cannot be shown again. Its text`;
    const secret = { token: answer.session, said, lost: "run it again, which makes another one", file };
    await session.out.secret(CreateViewerSessionResponseSchema, answer, secret);
  });

  const revoke = viewerSession
    .command("revoke")
    .description("end the viewer sessions of a user group, or of one viewer of it; its tokens stay")
    .argument("<group>")
    .option("--viewer <id>", "of this viewer alone; default: all of the group")
    .addOption(environmentOption())
    .addOption(yesOption());
  runs(revoke, shell, async (session, userGroupId: string, options: RevokeOptions) => {
    // An empty viewer id would end the sessions of the whole group.
    const viewerId = givenText("--viewer", options.viewer);
    const environment = environmentOf(session, options);
    const { admin } = await connect(session);
    const whose = viewerId === undefined ? userGroupId : `the viewer ${viewerId} of ${userGroupId}`;
    const id = viewerId ?? userGroupId;
    const consequence = `This ends all viewer sessions of ${whose}: pages that have one need another`;
    await confirm(shell, { what: `the viewer sessions of ${whose}`, id, consequence }, options.yes);
    await admin.revokeViewerSessions({ environment, userGroupId, viewerId });
    const rest = "Who verifies them without asking the service takes each until it expires.";
    await session.out.done(`The viewer sessions of ${whose} have ended. ${rest}`);
  });
};

interface ResolveOptions {
  readonly fromFile?: string;
  readonly audience?: string;
}

interface CreateOptions extends OutOptions {
  readonly audience: string;
  readonly group?: string;
  readonly fromFile?: string;
  readonly ttl?: string;
  readonly viewer?: string;
  readonly origin?: string;
  readonly property?: string[];
  readonly claims?: string;
}

interface RevokeOptions extends EnvironmentOption, YesOption {
  readonly viewer?: string;
}

/** A text that may be left out, but not be empty. @throws Failure */
function givenText(option: string, text: string | undefined): string | undefined {
  return text === undefined ? undefined : nonEmpty(option, text);
}

/** The claims that are given, or those in the file that is. @throws Failure when they are no JSON object */
async function claimsOf(given: string): Promise<JsonObject> {
  const isJson = /^\s*[{[]/.test(given);
  const text = isJson ? given : await readPlainFile(given);
  return parseJsonObject(text, { source: isJson ? "--claims" : given, example: '{"theme":"dark"}' });
}

/** The facts of a viewer session. */
export function sessionFacts({ id, audience, viewerId, origin, claims, createTime, expireTime }: ViewerSession): Facts {
  return [
    ["session", id],
    ["audience", audience],
    ["viewer", viewerId || undefined],
    ["origin", origin || undefined],
    ["claims", propertiesText(claims)],
    ["session since", timeText(createTime)],
    ["session ends", timeText(expireTime)],
  ];
}
