/** A permission that Deno grants, or not. */
type Permission =
  | { readonly name: "net"; readonly host?: string }
  | { readonly name: "run"; readonly command: string }
  | { readonly name: "read"; readonly path?: string }
  | { readonly name: "env" | "sys" };

/** The part of the Deno API that is used. */
type DenoPermissions = { permissions: { query(of: Permission): Promise<{ state: string }> } };

/** Whether Deno grants a permission. Node grants all. */
async function isGranted(permission: Permission): Promise<boolean> {
  const deno = (globalThis as { Deno?: DenoPermissions }).Deno;
  return !deno || (await deno.permissions.query(permission)).state === "granted";
}

/**
 * Requires Deno's permission to listen. Without it Deno would throw in a callback of its own, where nothing can catch
 * it.
 *
 * @throws an error of the system call `listen` without the permission
 */
export async function requireListenPermission(host: string, port: number): Promise<void> {
  const name = host.includes(":") ? `[${host}]` : host;
  if (await isGranted({ name: "net", host: `${name}:${port}` })) return;
  const message = `Deno does not allow ${name}:${port}; add "${name}" to permissions.default.net in deno.json`;
  throw Object.assign(new Error(message), { syscall: "listen" });
}

/** Deno does not allow what the settings ask for. The message says how to. */
export class NotAllowed extends Error {}

/** Requires Deno's permission to connect, without which every request would fail. @throws NotAllowed */
export async function requireConnectPermission({ protocol, hostname, port }: URL): Promise<void> {
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  if (await isGranted({ name: "net", host })) return;
  throw new NotAllowed(`Deno does not allow ${host}; add "${host}" to permissions.default.net in deno.json`);
}

/** Whether Deno lets files be read. */
export async function mayRead(paths: readonly string[]): Promise<boolean> {
  return (await Promise.all(paths.map((path) => isGranted({ name: "read", path })))).every(Boolean);
}

/** Requires Deno's permission to run Deno, which workers need. @throws NotAllowed */
export async function requireRunPermission(): Promise<void> {
  const command = process.execPath;
  if (await isGranted({ name: "run", command })) return;
  throw new NotAllowed(
    `WORKERS above 1 need Deno's permission to run itself: start it with --allow-run=${command}, as npm run start:deno does where WORKERS is set`,
  );
}

/**
 * The flags of Deno for a worker: the permissions of `deno.json`, what this process has been granted without bounds, and
 * the files of the settings. A process cannot learn of the other bounds that it was started with.
 */
export async function workerFlags(files: readonly string[]): Promise<string[]> {
  const flags = ["--no-prompt", "-P"];
  for (const name of ["net", "env", "read", "sys"] as const) {
    if (await isGranted({ name })) flags.push(`--allow-${name}`);
    else if (name === "read" && files.length > 0) flags.push(`--allow-read=${files.join(",")}`);
  }
  return flags;
}
