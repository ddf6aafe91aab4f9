import { Option } from "commander";
import { exportGroups } from "../transfer/export-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOption } from "./options.ts";

export const exportCommand: DefineCommand = (command, shell) => {
  command
    .argument("[file]", "the file to write, or `-` for standard output; default: `-`")
    .description("export user groups for ugs import; after an interruption, run the same command again to continue")
    .addOption(environmentOption())
    .addOption(
      new Option(
        "--format <format>",
        "the format of the file; default: by the extension of the file, otherwise jsonl",
      ).choices(["jsonl", "csv"]),
    )
    .option("--prefix <prefix>", "only user groups whose ids start with this text")
    .option("--include-tokens", "include the tokens; the audit trail records exports with tokens")
    .option("--force", "replace the file if it exists")
    .option("--restart", "start again instead of continuing an interrupted export");
  runs(command, shell, exportGroups);
};
