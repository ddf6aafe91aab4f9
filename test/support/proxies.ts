import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess } from "@user-group-service/testing/process";
import { freePort, waitFor } from "@user-group-service/testing/wait";

/**
 * Returns the URL of the running proxy for a port in its configuration file in `deploy/`. The proxy listens on a free
 * port in place of this port.
 */
export type Listening = (port: number) => string;

export async function newNginx(program: string, ...urls: readonly string[]): Promise<Listening> {
  const folder = newFolder();
  const { text, at } = await settings("nginx/user-group-service.conf", urls);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join("\n");
  const file = join(folder, "nginx.conf");
  // If root starts nginx, the workers of nginx run as another user by default. This user could not write to the folder.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  writeFileSync(
    file,
    `${user} daemon off; pid ${folder}/pid; error_log stderr; worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http { access_log off; ${temporary}
${text} }`,
  );
  newProcess(startProcess([program, "-e", "stderr", "-p", folder, "-c", file]));
  return at;
}

export async function newHaproxy(program: string, ...urls: readonly string[]): Promise<Listening> {
  const { text, at } = await settings("haproxy/haproxy.cfg", urls);
  const file = join(newFolder(), "haproxy.cfg");
  writeFileSync(file, text);
  newProcess(startProcess([program, "-f", file]));
  return at;
}

export async function newEnvoy(program: string, ...urls: readonly string[]): Promise<Listening> {
  const { text, at } = await settings("envoy/envoy.yaml", urls);
  const file = join(newFolder(), "envoy.yaml");
  writeFileSync(file, text);
  newProcess(startProcess([program, "-c", file, "--use-dynamic-base-id", "--log-level", "warning"]));
  return at;
}

export async function waitUntilListening(url: string): Promise<void> {
  await waitFor("the proxy accepts connections", async () => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const isOpen = await new Promise((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
    });
    socket.destroy();
    return isOpen;
  });
}

/**
 * Reads a configuration from `deploy/`. Replaces the ports of the service with the ports of `urls`. Replaces the ports
 * on which the proxy listens with unused ports.
 */
async function settings(path: string, urls: readonly string[]) {
  const ports = new Map(["8080", "8090"].map((port, i) => [port, new URL(urls[i % urls.length] ?? "").port]));
  let text = readFileSync(join(ROOT, "deploy", path), "utf8");
  const PORT = /(?<=127\.0\.0\.1(?::|, port_value: ))\d+/g;
  for (const [port] of text.matchAll(PORT)) {
    if (!ports.has(port)) ports.set(port, String(await freePort()));
  }
  text = text.replace(PORT, (port) => ports.get(port) ?? port);
  return { text, at: (port: number) => `http://127.0.0.1:${ports.get(String(port))}` };
}
