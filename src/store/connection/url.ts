export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** The secrets that can change while the service runs. New connections use the current secrets. */
export interface RedisSecrets {
  readonly password: string | undefined;
  readonly sentinelPassword: string | undefined;
  /** CA certificates for Redis and the Sentinels, in PEM. Default: the CA certificates of the runtime. */
  readonly ca: string | undefined;
}

export interface RedisLogin {
  readonly tls: boolean;
  readonly db: number;
  /** The user. Undefined if the service logs in as the default user of Redis. */
  readonly username: string | undefined;
  readonly secrets: RedisSecrets;
}

export interface RedisTarget extends RedisLogin {
  readonly topology: "node" | "sentinel" | "cluster";
  /** The node, the Sentinels, or the first nodes of the Cluster. */
  readonly hosts: readonly [HostPort, ...HostPort[]];
  /** The name of the master in the Sentinel configuration. Empty if REDIS_URL contains no Sentinels. */
  readonly master: string;
}

const FORM = /^redis(s?)(?:-(sentinel|cluster))?:\/\/(?:([^@/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:#(.*))?$/i;
const HOST = /^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?$/;
const TOPOLOGIES = {
  node: { form: "redis://HOST:PORT/DB or rediss://HOST:PORT/DB", port: 6379 },
  sentinel: {
    form: "redis-sentinel://HOST:PORT,HOST:PORT/DB#MASTER or rediss-sentinel://...",
    port: 26_379,
  },
  cluster: { form: "redis-cluster://HOST:PORT,HOST:PORT or rediss-cluster://...", port: 6379 },
} as const;

/** Parses REDIS_URL. A password in the URL has priority over the password in `beside`. Faults contain no secrets. */
export function readRedisUrl(
  url: string,
  beside: RedisSecrets,
): { readonly target?: RedisTarget; readonly faults?: readonly string[] } {
  const match = FORM.exec(url);
  if (!match) return { faults: [malformed(url)] };
  const [, s = "", kind = "node", credentials, hosts = "", path = "", fragment] = match;
  const topology = kind.toLowerCase() as RedisTarget["topology"];
  const { form, port } = TOPOLOGIES[topology];
  const faults: string[] = [];
  const places = hosts.split(",").map((host) => hostPort(host, port));
  const wrong = places.indexOf(undefined);
  if (wrong >= 0 || (topology === "node" && places.length > 1)) {
    const which =
      places.length === 1 ? "" : wrong < 0 ? "has several hosts, but " : `has an invalid host ${wrong + 1}, but `;
    faults.push(
      `${which}must be ${form}, with an IPv6 address in brackets; to use the embedded store, unset REDIS_URL`,
    );
  }
  if (!/^\d{0,5}$/.test(path)) faults.push(`must end with a database number, as in ${form}`);
  else if (topology === "cluster" && Number(path) !== 0)
    faults.push("has a database number, but a Cluster has only database 0; remove the number");
  if (topology === "sentinel" && !/^[A-Za-z0-9._-]+$/.test(fragment ?? ""))
    faults.push("must end with # and the name of the master in the Sentinel configuration, such as #mymaster");
  if (topology !== "sentinel" && fragment !== undefined) faults.push(NO_QUERY);
  const [username, password] = (credentials ?? "").split(/:(.*)/s, 2).map(decoded);
  if (username === null || password === null) {
    faults.push("has a user or password that is not percent-encoded UTF-8; write % as %25");
  } else if (username && !password && beside.password === undefined) {
    faults.push(
      "has a user without a password; write redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST for the default user, or set REDIS_PASSWORD_FILE",
    );
  }
  if (faults.length > 0) return { faults };
  const target: RedisTarget = {
    topology,
    hosts: places as [HostPort, ...HostPort[]],
    tls: s === "s",
    db: Number(path),
    username: username || undefined,
    secrets: { ...beside, password: password || beside.password },
    master: fragment ?? "",
  };
  return { target };
}

const NO_QUERY =
  "must end with the database number, without a query or fragment; in a password write ? as %3F and # as %23";

function malformed(url: string): string {
  if (!/^rediss?(-sentinel|-cluster)?:\/\//i.test(url)) {
    return "must begin with redis://, redis-sentinel:// or redis-cluster://, or with rediss instead of redis for TLS; to use the embedded store, unset REDIS_URL";
  }
  if (url.includes("?")) return NO_QUERY;
  return `must be ${TOPOLOGIES.node.form}; in a user or password write / as %2F, # as %23 and @ as %40`;
}

function hostPort(text: string, otherwise: number): HostPort | undefined {
  const [, host, port] = HOST.exec(text) ?? [];
  if (host === undefined || Number(port ?? otherwise) > 65_535 || port === "0") return undefined;
  // Without this check, the connection would look up an invalid IPv6 address in DNS.
  if (host.startsWith("[") && !URL.canParse(`http://${host}`)) return undefined;
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port ?? otherwise) };
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

export function nameOf({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
