import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { resolve } from "node:path";

const PACKAGE = /^(.*\/node_modules)\/((?:@[^/]+\/)?[^/]+)\//;
const LICENSE_FILE = /^(?:licen[cs]e|notice|copying|copyright)\b/i;
/** The comment at the beginning of a file. */
const HEADER = /^\s*(?:(?:\/\/[^\n]*\n)+|\/\*.*?\*\/)/s;
/** What the MIT licence requires beside its copyright notice. */
const MIT_PERMISSION = /Permission is hereby granted.*/s;

/**
 * The licences that go with a bundle: ours, and those of every package that it has something of. Its source maps tell
 * also of what packages have in their own bundles.
 *
 * @param {string} root where our licence is
 * @param {readonly { path: string, text: string }[]} maps the source maps
 * @param {readonly { folder: string, texts: readonly string[] }[]} [copied] packages with files that are copied, and
 *   where they tell the licences of what these have of others
 * @returns {Promise<string>}
 * @throws when a package tells no licence
 */
export async function licensesOf(root, maps, copied = []) {
  /** The packages that have the same text. @type {Map<string, string[]>} */
  const namesOf = new Map([[(await readFile(`${root}/LICENSE`, "utf8")).trim(), ["user-group-service"]]]);
  for (const [folder, sources] of [...sourcesOf(maps)].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { name, text } = await licenseOf(folder, sources);
    if (text === "") throw new Error(`${name} comes without the text of its licence`);
    namesOf.set(text, [...(namesOf.get(text) ?? []), name]);
  }
  for (const { folder, texts } of copied) {
    const { name, text } = await licenseOf(folder, []);
    const others = await Promise.all(texts.map((file) => readFile(`${folder}/${file}`, "utf8")));
    namesOf.set([text, ...others.map((other) => other.trim())].join("\n\n"), [name]);
  }
  const parts = [...namesOf].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`);
  return parts.join(`\n${"-".repeat(80)}\n\n`);
}

/**
 * The sources of each package, by its folder.
 *
 * @param {readonly { path: string, text: string }[]} maps
 */
function sourcesOf(maps) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const { path, text } of maps) {
    const { sources, sourcesContent } = JSON.parse(text);
    for (const [i, source] of sources.entries()) {
      const [, parent, name] = PACKAGE.exec(resolve(path, "..", source)) ?? [];
      if (name === undefined) continue;
      const folder = `${parent}/${name}`;
      found.set(folder, [...(found.get(folder) ?? []), sourcesContent[i]]);
    }
  }
  return found;
}

/**
 * @param {string} folder of a package
 * @param {readonly string[]} sources what is bundled of it
 * @returns {Promise<{ name: string, text: string }>}
 */
async function licenseOf(folder, sources) {
  const notices = noticesIn(sources);
  if (existsSync(`${folder}/package.json`)) {
    const { name, version, license, author } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
    const text = (await licenseFiles(folder)) || notices || (license === "MIT" && author ? mitOf(author) : "");
    return { name: `${name} ${version} (${license})`, text };
  }
  // It is in the bundle of the package around it, and perhaps installed elsewhere too.
  const [, parent = "", name = ""] = PACKAGE.exec(`${folder}/`) ?? [];
  const around = parent.slice(0, -"/node_modules".length);
  const [, outside = ""] = PACKAGE.exec(`${around}/`) ?? [];
  if (existsSync(`${outside}/${name}/package.json`)) return licenseOf(`${outside}/${name}`, sources);
  const [permission = ""] = /\bMIT\b/.test(notices) ? (MIT_PERMISSION.exec(await licenseFiles(around)) ?? []) : [];
  return { name: `${name}, in ${around.slice(outside.length + 1)}`, text: `${notices}\n\n${permission}`.trim() };
}

/**
 * The MIT licence of a package that comes without a text of it, but says that it has this one, and whose it is.
 *
 * @param {string | { name: string }} author as its package.json has it
 */
function mitOf(author) {
  return `MIT License

Copyright (c) ${typeof author === "string" ? author : author.name}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
}

/** The text of a package's licence files; empty when it has none. @param {string} folder */
async function licenseFiles(folder) {
  const names = (await readdir(folder)).filter((name) => LICENSE_FILE.test(name)).sort();
  const texts = await Promise.all(names.map((name) => readFile(`${folder}/${name}`, "utf8")));
  return texts.map((text) => text.trim()).join("\n\n");
}

/** The different copyright notices at the beginning of files. @param {readonly string[]} sources */
function noticesIn(sources) {
  const headers = sources.map((text) => HEADER.exec(text)?.[0].trim() ?? "").filter((text) => /copyright/i.test(text));
  /** Those that begin as a shorter one does only say more of their file. @type {string[]} */
  const notices = [];
  for (const text of headers.sort((a, b) => a.length - b.length)) {
    if (!notices.some((notice) => text.startsWith(notice))) notices.push(text);
  }
  return notices.join("\n\n");
}
