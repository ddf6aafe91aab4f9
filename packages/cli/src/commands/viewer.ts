import { ResolveViewerResponseSchema } from "../../../../gen/usergroup/v1/viewer_service_pb.ts";
import { mappingText, propertiesText } from "../output/group.ts";
import { timeText } from "../output/words.ts";
import { readToken } from "../secret-input.ts";
import { connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";

/** `ugs viewer ...` */
export const viewerCommands: DefineCommand = (viewer, shell) => {
  const resolve = viewer
    .command("resolve")
    .description("which user group a token stands for; exit code 3 when it stands for none")
    .option("--from-file <file>", "a file with it; by default it is asked for, or read from standard input");
  runs(resolve, shell, async (session, { fromFile }: { readonly fromFile?: string }) => {
    const { viewers } = await connect(session);
    const found = await viewers.resolveViewer({ token: await readToken(shell, "User group token", fromFile) });
    await session.out.record(ResolveViewerResponseSchema, found, [
      ["group", found.providedId],
      ["name", found.name],
      ["team id", String(found.teamId)],
      ["mapping", mappingText(found.mapping)],
      ["properties", propertiesText(found.properties)],
      ["token ends", timeText(found.tokenExpireTime)],
    ]);
  });
};
