import { Option } from "commander";
import { importGroups } from "../transfer/import-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOption } from "./options.ts";

export const importCommand: DefineCommand = (command, shell) => {
  command
    .argument("[file]", "a JSON Lines or CSV file; `-`: standard input")
    .description("import user groups with their tokens; run the same command again to continue after an interruption")
    .addOption(environmentOption())
    .addOption(
      new Option("--format <format>", "default: from the file name, otherwise from the first byte").choices([
        "jsonl",
        "csv",
      ]),
    )
    .option("--upsert", "update existing groups; default: existing groups that differ are rejected")
    .option(
      "--snapshot-time <time>",
      "time at which the groups were read; default: the time in the first line of an export",
    )
    .option("--replace-newer-tokens", "also replace tokens that are newer than the snapshot time")
    .option(
      "--previous-token-ttl <duration>",
      "how long replaced tokens stay valid; default: replaced tokens are revoked at once",
    )
    .addOption(
      new Option(
        "--dry-run",
        "change nothing, and report the changes that the import would make; with --json one object per group",
      ).conflicts("verify"),
    )
    .option("--verify", "change nothing, and report whether the input and the service are equal")
    .option("--rejects <file>", "file for rejected groups; default: a file beside the input")
    .option("--max-rejects <n>", "stop if more groups than this are rejected; default: never")
    .option("--ignore-unknown", "ignore unknown fields and columns")
    .option("--restart", "start again instead of continuing an interrupted import")
    .option("--from-explo", "import the customers of the hosted service")
    .option(
      "--explo-token-file <file>",
      "file with the API token of the hosted service (UGS_EXPLO_TOKEN_FILE; or the token itself: UGS_EXPLO_TOKEN)",
    )
    .option("--explo-url <url>", "URL of the hosted service", "https://api.explo.co")
    .option("--explo-page-size <n>", "customers per page; default: 1000, the maximum")
    .addOption(
      new Option(
        "--explo-values <which>",
        "import each customer with the values of its parents, or only with its own values",
      )
        .choices(["inherited", "own"])
        .default("inherited"),
    );
  runs(command, shell, importGroups);
};
