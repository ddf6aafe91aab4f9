/** Where a Redis node is and who calls it. */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly db: number;
  /** Undefined: Redis' default user. */
  readonly username: string | undefined;
  readonly password: string | undefined;
}

/**
 * What a URL says of a Redis node. Nothing else is taken from it, so that no
 * text of a URL can change how the client behaves.
 *
 * @param url `redis://` or `rediss://`, as the settings take it
 */
export function redisAddress(url: string): RedisAddress {
  const { protocol, hostname, port, pathname, username, password } = new URL(url);
  return {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: Number(port || 6379),
    tls: protocol === "rediss:",
    db: Number(pathname.slice(1)),
    username: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
  };
}
