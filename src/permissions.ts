/** The part of the Deno API that is used; undefined on Node. */
type DenoPermissions = { permissions: { query(of: { name: "net"; host: string }): Promise<{ state: string }> } };

/**
 * Requires Deno's permission to listen. Without it Deno would throw in a callback of its own, where nothing can catch
 * it.
 *
 * @throws an error of the system call `listen` without the permission
 */
export async function requireListenPermission(host: string, port: number): Promise<void> {
  const deno = (globalThis as { Deno?: DenoPermissions }).Deno;
  if (!deno) return;
  const name = host.includes(":") ? `[${host}]` : host;
  const { state } = await deno.permissions.query({ name: "net", host: `${name}:${port}` });
  if (state === "granted") return;
  const message = `Deno does not allow ${name}:${port}; add "${name}" to permissions.default.net in deno.json`;
  throw Object.assign(new Error(message), { syscall: "listen" });
}
