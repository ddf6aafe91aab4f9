import { Option } from "commander";
import { type ExportFlags, exportGroups } from "../transfer/export-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOption } from "./options.ts";

/** `ugs export` */
export const exportCommand: DefineCommand = (command, shell) => {
  command
    .argument("[file]", "default, and -: standard output")
    .description("export user groups for ugs import; what was cut off goes on when it is run again")
    .addOption(environmentOption())
    .addOption(new Option("--format <format>", "default: by the name, or jsonl").choices(["jsonl", "csv"]))
    .option("--prefix <prefix>", "only groups whose ids begin with it")
    .option("--include-tokens", "with their tokens, which the audit trail records")
    .option("--force", "replace the file if it is there")
    .option("--restart", "start over though an export to the file was cut off");
  runs(command, shell, (session, file: string | undefined, flags: ExportFlags) => exportGroups(session, file, flags));
};
