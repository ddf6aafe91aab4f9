// Finds the phrases of scripts/words.txt in the files of the repository, and prints where, with the replacement.
// Fails if a phrase is in a folder of CLEAN. With arguments, it looks only in files whose paths begin with one of them.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

/** Folders that must stay without these phrases. In the other folders, the script only counts them. */
/** @type {string[]} */
const CLEAN = [
  "SECURITY.md",
  "deploy/",
  "docs/decisions/",
  "docs/dependencies.md",
  "docs/operations/",
  "docs/performance.md",
  "docs/security.md",
];

const EXTENSIONS = /\.(?:[jt]sx?|mjs|py|go|lua|proto|md|ya?ml|sh|css|html|conf|service)$/;
const GENERATED = /(?:^|\/)gen\/|_pb2?\.|\.pb\.go$|\.connect\.go$|^proto\/(?:buf|google|grpc)\//;

/** What separates two words: white space, and after a line break also the start of a comment. */
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
  .filter((file) => EXTENSIONS.test(file) && !GENERATED.test(file) && existsSync(file))
  .filter((file) => only.length === 0 || only.some((start) => file.startsWith(start)));

/** @type {Map<string, number>} */
const counts = new Map();
let failures = 0;
for (const file of files) {
  const text = `${file}\n${readFileSync(file, "utf8")}`;
  const found = phrases.flatMap(({ regex, replacement }) =>
    [...text.matchAll(regex)].map((match) => ({ at: match.index, phrase: match[0], replacement })),
  );
  if (found.length === 0) continue;
  const folder = folderOf(file);
  counts.set(folder, (counts.get(folder) ?? 0) + found.length);
  const isClean = CLEAN.some((start) => file.startsWith(start));
  if (isClean) failures += found.length;
  if (!isClean && only.length === 0) continue;
  for (const { at, phrase, replacement } of found.sort((a, b) => a.at - b.at)) {
    const line = text.slice(0, at).split("\n").length - 1;
    console.error(`${file}:${line}: "${phrase.replace(/\s+/g, " ").trim()}": write: ${replacement}`);
  }
}
if (failures > 0) {
  console.error(`${failures} phrases of scripts/words.txt are in folders that must not have them`);
  process.exit(1);
}
const rest = [...counts].sort(([, a], [, b]) => b - a).map(([folder, count]) => `${folder} ${count}`);
if (rest.length > 0)
  console.log(`phrases of scripts/words.txt left (node scripts/check-words.js FOLDER): ${rest.join(", ")}`);

/**
 * The folder that a file is counted in: at most the first two parts of its path.
 *
 * @param {string} file
 */
function folderOf(file) {
  return file.split("/").slice(0, -1).slice(0, 2).join("/") || ".";
}
