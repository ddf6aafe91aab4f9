// Fails if a file of the repository uses a phrase of scripts/words.txt, and prints the replacement. If arguments are
// given, checks only the files whose paths start with one of the arguments.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

/** This script does not check this file, because the file quotes the MIT licence. */
const QUOTES = "scripts/licenses.js";

const EXTENSIONS = /\.(?:[jt]sx?|mjs|py|go|lua|proto|md|ya?ml|sh|css|html|conf|service)$/;
const GENERATED = /(?:^|\/)gen\/|_pb2?\.|\.pb\.go$|\.connect\.go$|^proto\/(?:buf|google|grpc)\//;

/** Matches the white space between two words. After a line break, a comment marker such as `//` can follow. */
const GAP = String.raw`(?:[ \t]+|[ \t]*\n[ \t]*(?:(?:\/\/+|\*|#+|--+|>)[ \t]+)?)`;

const phrases = readFileSync("scripts/words.txt", "utf8")
  .split("\n")
  .filter((line) => line.includes(" => ") && !line.startsWith("#"))
  .map((line) => {
    const [pattern = "", replacement = ""] = line.split(" => ");
    const start = /^\w|^\(\w/.test(pattern) ? "(?<![\\w])" : "";
    const words = pattern.replaceAll(" ", GAP);
    return { regex: new RegExp(`${start}(?:${words})(?!\\w)`, "gi"), replacement };
  });

const only = process.argv.slice(2);
const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
  encoding: "utf8",
})
  .split("\0")
  .filter((file) => EXTENSIONS.test(file) && !GENERATED.test(file) && file !== QUOTES && existsSync(file))
  .filter((file) => only.length === 0 || only.some((start) => file.startsWith(start)));

let failures = 0;
for (const file of files) {
  const text = `${file}\n${readFileSync(file, "utf8")}`;
  const found = phrases.flatMap(({ regex, replacement }) =>
    [...text.matchAll(regex)].map((match) => ({ at: match.index, phrase: match[0], replacement })),
  );
  failures += found.length;
  for (const { at, phrase, replacement } of found.sort((a, b) => a.at - b.at)) {
    const line = text.slice(0, at).split("\n").length - 1;
    console.error(`${file}:${line}: replace "${phrase.replace(/\s+/g, " ").trim()}": ${replacement}`);
  }
}
if (failures > 0) {
  console.error(`found ${failures} phrases of scripts/words.txt: use the replacements in the lines above`);
  process.exit(1);
}
