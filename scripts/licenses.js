import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { resolve } from "node:path";

const PACKAGE = /^(.*\/node_modules)\/((?:@[^/]+\/)?[^/]+)\//;
const LICENSE_FILE = /^(?:licen[cs]e|notice|copying|copyright)\b/i;
const HEADER = /^\s*(?:(?:\/\/[^\n]*\n)+|\/\*.*?\*\/)/s;
/**
 * Maps folder names in source maps to names of packages. Most source maps contain the name of the package. The source
 * map of a package in this table contains the name of a folder in the package's repository instead.
 */
const FOLDERS = new Map([["shared", "lucide-preact"]]);
const MIT_PERMISSION = /Permission is hereby granted.*/s;

/**
 * Returns the licences for a bundle: our licence, and the licences of all packages in the bundle. Some packages are
 * themselves bundles of packages. The source maps list the packages inside these bundles as well.
 *
 * @param root folder of our licence
 * @param maps the source maps
 * @param copied packages whose files are copied and not bundled. `texts` are files of the package that contain licences
 *   of other packages
 * @throws if a package has no licence
 */
export async function licensesOf(root, maps, copied = []) {
  /** Maps a licence text to the names of the packages with this text. */
  const namesOf = new Map([[(await readFile(`${root}/LICENSE`, "utf8")).trim(), ["user-group-service"]]]);
  for (const [folder, sources] of [...sourcesOf(maps)].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { name, text } = await licenseOf(folder, sources);
    if (text === "") throw new Error(`the package ${name} contains no licence text`);
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

/** Returns the sources of each package, by the folder of the package. */
function sourcesOf(maps) {
  const found = new Map();
  for (const { path, text } of maps) {
    const { sources, sourcesContent } = JSON.parse(text);
    for (const [i, source] of sources.entries()) {
      const [, parent, name] = PACKAGE.exec(resolve(path, "..", source)) ?? [];
      if (name === undefined) continue;
      const folder = `${parent}/${FOLDERS.get(name) ?? name}`;
      found.set(folder, [...(found.get(folder) ?? []), sourcesContent[i]]);
    }
  }
  return found;
}

/** @param sources the bundled sources of the package */
async function licenseOf(folder, sources) {
  const notices = noticesIn(sources);
  if (existsSync(`${folder}/package.json`)) {
    const { name, version, license, author } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
    const text = (await licenseFiles(folder)) || notices || (license === "MIT" && author ? mitOf(author) : "");
    return { name: `${name} ${version} (${license})`, text };
  }
  // The package is not in its own folder, because another package bundles it. Look for the package next to the package
  // that bundles it.
  const [, parent = "", name = ""] = PACKAGE.exec(`${folder}/`) ?? [];
  const around = parent.slice(0, -"/node_modules".length);
  const [, outside = ""] = PACKAGE.exec(`${around}/`) ?? [];
  if (existsSync(`${outside}/${name}/package.json`)) return licenseOf(`${outside}/${name}`, sources);
  const [permission = ""] = /\bMIT\b/.test(notices) ? (MIT_PERMISSION.exec(await licenseFiles(around)) ?? []) : [];
  return { name: `${name}, in ${around.slice(outside.length + 1)}`, text: `${notices}\n\n${permission}`.trim() };
}

/**
 * Returns the text of the MIT licence for a package that has no licence file. The package.json of the package names the
 * MIT licence and the author.
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

/** Returns the content of the licence files of a package. Empty if the package has no such file. */
async function licenseFiles(folder) {
  const names = (await readdir(folder)).filter((name) => LICENSE_FILE.test(name)).sort();
  const texts = await Promise.all(names.map((name) => readFile(`${folder}/${name}`, "utf8")));
  return texts.map((text) => text.trim()).join("\n\n");
}

/** Returns the distinct copyright notices at the start of files. */
function noticesIn(sources) {
  const headers = sources.map((text) => HEADER.exec(text)?.[0].trim() ?? "").filter((text) => /copyright/i.test(text));
  // The notices, the shortest first. If a notice starts with a shorter notice, the longer notice only adds details of
  // one file, so the longer notice is omitted.
  const notices = [];
  for (const text of headers.sort((a, b) => a.length - b.length)) {
    if (!notices.some((notice) => text.startsWith(notice))) notices.push(text);
  }
  return notices.join("\n\n");
}
