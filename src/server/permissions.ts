type Permission =
  | { readonly name: "net"; readonly host?: string }
  | { readonly name: "run"; readonly command: string }
  | { readonly name: "read"; readonly path?: string }
  | { readonly name: "env" | "sys" };

type DenoPermissions = { permissions: { query(of: Permission): Promise<{ state: string }> } };

/** Returns whether the runtime grants a permission. Node grants every permission. */
async function isGranted(permission: Permission): Promise<boolean> {
  const deno = (globalThis as { Deno?: DenoPermissions }).Deno;
  return !deno || (await deno.permissions.query(permission)).state === "granted";
}

/**
 * Requires the permission to listen on a port. Call this function before the process listens. If a process listens
 * without the permission, Deno throws an error in an internal callback, where no code can catch the error.
 *
 * @throws Error with the `syscall` "listen" if Deno does not grant the permission
 */
export async function requireListenPermission(host: string, port: number): Promise<void> {
  const name = host.includes(":") ? `[${host}]` : host;
  if (await isGranted({ name: "net", host: `${name}:${port}` })) return;
  const message = `Deno does not allow ${name}:${port}; add "${name}" to permissions.default.net in deno.json`;
  throw Object.assign(new Error(message), { syscall: "listen" });
}

/** Deno does not grant a permission that the settings need. The message contains the remedy. */
export class NotAllowed extends Error {}

/** @throws NotAllowed */
export async function requireConnectPermission({ protocol, hostname, port }: URL): Promise<void> {
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  if (await isGranted({ name: "net", host })) return;
  throw new NotAllowed(`Deno does not allow ${host}; add "${host}" to permissions.default.net in deno.json`);
}

export async function mayRead(paths: readonly string[]): Promise<boolean> {
  return (await Promise.all(paths.map((path) => isGranted({ name: "read", path })))).every(Boolean);
}

/** @throws NotAllowed */
export async function requireRunPermission(): Promise<void> {
  const command = process.execPath;
  if (await isGranted({ name: "run", command })) return;
  throw new NotAllowed(
    `WORKERS above 1 needs the permission to run Deno: start the service with --allow-run=${command}. If WORKERS is set, npm run start:deno adds this flag`,
  );
}

/**
 * Returns the Deno flags of a worker. The flags grant the permissions of `deno.json`, the unlimited permissions of this
 * process, and the permission to read `files`. A process cannot query the limits of its permissions. The worker
 * therefore does not get limited permissions of this process, such as `--allow-net=HOST`.
 */
export async function workerFlags(files: readonly string[]): Promise<string[]> {
  const flags = ["--no-prompt", "-P"];
  for (const name of ["net", "env", "read", "sys"] as const) {
    if (await isGranted({ name })) flags.push(`--allow-${name}`);
    else if (name === "read" && files.length > 0) flags.push(`--allow-read=${files.join(",")}`);
  }
  return flags;
}
