import { Option } from "commander";
import { exportGroups } from "../transfer/export-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOption } from "./options.ts";

export const exportCommand: DefineCommand = (command, shell) => {
  command
    .argument("[file]", "the file to write; `-` (default): standard output")
    .description("export user groups for ugs import; run the same command again to continue after an interruption")
    .addOption(environmentOption())
    .addOption(
      new Option("--format <format>", "default: from the file name, otherwise jsonl").choices(["jsonl", "csv"]),
    )
    .option("--prefix <prefix>", "only user groups whose ids start with this text")
    .option("--include-tokens", "include the tokens; the audit trail records such an export")
    .option("--force", "replace the file if it exists")
    .option("--restart", "start again instead of continuing an interrupted export");
  runs(command, shell, exportGroups);
};
