import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder, newProcess } from "./opened.ts";
import { ROOT, startProcess } from "./process.ts";
import { freePort } from "./wait.ts";

/** A proxy as `docs/operations.md` sets it up, by the ports that it has there. */
export type Listening = (port: number) => string;

/** Starts nginx in front of a server. */
export async function newNginx(program: string, url: string): Promise<Listening> {
  const folder = newFolder();
  const { text, at } = await settings("nginx", url);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join("\n");
  const file = join(folder, "nginx.conf");
  writeFileSync(
    file,
    `daemon off; pid ${folder}/pid; error_log stderr; worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http { access_log off; ${temporary}
${text} }`,
  );
  newProcess(startProcess([program, "-e", "stderr", "-p", folder, "-c", file]));
  return at;
}

/** Starts HAProxy in front of a server. */
export async function newHaproxy(program: string, url: string): Promise<Listening> {
  const { text, at } = await settings("haproxy", url);
  const file = join(newFolder(), "haproxy.cfg");
  writeFileSync(file, text);
  newProcess(startProcess([program, "-f", file]));
  return at;
}

/** The block of a language in the document, with ports that are free and the server's own. */
async function settings(language: string, url: string) {
  const document = readFileSync(join(ROOT, "docs/operations.md"), "utf8");
  let text = new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, "m").exec(document)?.[1];
  if (text === undefined) throw new Error(`docs/operations.md has no block of ${language}`);
  const ports = new Map([["8080", new URL(url).port]]);
  for (const [, port = ""] of text.matchAll(/127\.0\.0\.1:(\d+)/g)) {
    if (!ports.has(port)) ports.set(port, String(await freePort()));
  }
  text = text.replace(/(?<=127\.0\.0\.1:)\d+/g, (port) => ports.get(port) ?? port);
  return { text, at: (port: number) => `http://127.0.0.1:${ports.get(String(port))}` };
}
