import { Option } from "commander";
import { importGroups } from "../transfer/import-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOption } from "./options.ts";

export const importCommand: DefineCommand = (command, shell) => {
  command
    .argument("[file]", "a JSON Lines or CSV file, or `-` for standard input")
    .description("import user groups with their tokens; after an interruption, run the same command again to continue")
    .addOption(environmentOption())
    .addOption(
      new Option(
        "--format <format>",
        "the format of the input; default: by the extension of the file, otherwise by the first character of the input",
      ).choices(["jsonl", "csv"]),
    )
    .option("--upsert", "update existing groups; default: reject a group that exists and differs from the input")
    .option(
      "--snapshot-time <time>",
      "time at which the tokens were read from their source; default: the time in the first line of an export",
    )
    .option("--replace-newer-tokens", "also replace tokens that are newer than the snapshot time")
    .option(
      "--previous-token-ttl <duration>",
      "how long replaced tokens stay valid; default: replaced tokens are revoked at once",
    )
    .addOption(
      new Option(
        "--dry-run",
        "change nothing, and report the changes that the import would make; with --json: one object per group",
      ).conflicts("verify"),
    )
    .option("--verify", "change nothing, and report whether the input and the service are equal")
    .option("--rejects <file>", "file for rejected groups; default: a file beside the input")
    .option("--max-rejects <n>", "stop if more than n groups are rejected; default: do not stop")
    .option("--ignore-unknown", "ignore unknown fields and columns")
    .option("--restart", "start again instead of continuing an interrupted import")
    .option("--from-explo", "import the customers of Explo, the hosted service")
    .option(
      "--explo-token-file <file>",
      "file with the API token of the hosted service (UGS_EXPLO_TOKEN_FILE; UGS_EXPLO_TOKEN contains the token itself)",
    )
    .option("--explo-url <url>", "URL of the hosted service", "https://api.explo.co")
    .option("--explo-page-size <n>", "customers per page; default: 1000, the maximum")
    .addOption(
      new Option(
        "--explo-values <which>",
        "`inherited`: import each customer with its own values and the values of its parents; `own`: only with its own values",
      )
        .choices(["inherited", "own"])
        .default("inherited"),
    );
  runs(command, shell, importGroups);
};
