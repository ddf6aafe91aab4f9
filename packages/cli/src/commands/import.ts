import { Option } from "commander";
import { type ImportFlags, importGroups } from "../transfer/import-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOption } from "./options.ts";

/** `ugs import` */
export const importCommand: DefineCommand = (command, shell) => {
  command
    .argument("[file]", "JSON Lines or CSV; - for standard input")
    .description("import user groups with their tokens; what was cut off goes on when it is run again")
    .addOption(environmentOption())
    .addOption(new Option("--format <format>", "default: by the name, or the first byte").choices(["jsonl", "csv"]))
    .option("--upsert", "make groups that are there as they are given; default: they are rejected if they differ")
    .option("--snapshot-time <time>", "of when the groups are; default: what the first line of an export says")
    .option("--replace-newer-tokens", "replace also tokens that are younger than that")
    .option("--previous-token-ttl <duration>", "how long replaced tokens stay valid; default: not at all")
    .option("--dry-run", "change nothing, say what would change; by --json one object a group")
    .option("--verify", "change nothing, say whether both sides are equal")
    .option("--rejects <file>", "where to write what is rejected; default: beside the file")
    .option("--max-rejects <n>", "stop when more are rejected; default: never")
    .option("--ignore-unknown", "leave out fields and columns that groups do not have")
    .option("--restart", "start over though an import of the file was cut off")
    .option("--from-explo", "import what the hosted service lists")
    .option("--explo-token-file <file>", "with its API token (UGS_EXPLO_TOKEN_FILE; UGS_EXPLO_TOKEN is the token)")
    .option("--explo-url <url>", "where it is", "https://api.explo.co")
    .option("--explo-page-size <n>", "customers of a page; default: 1000, the most that it gives")
    .addOption(
      new Option("--explo-values <which>", "values with those of parents, as dashboards see them, or a group's own")
        .choices(["inherited", "own"])
        .default("inherited"),
    );
  runs(command, shell, (session, file: string | undefined, flags: ImportFlags) => importGroups(session, file, flags));
};
