import type { Redis } from "ioredis";
import { PROBE_KEY, type StoreClient } from "./client.ts";
import { errorCodeOf, isNoCluster, isRefusal, StoreMisconfigured } from "./errors.ts";

/** The oldest version of each server that will do, as major and minor. */
export const OLDEST: { readonly [server: string]: readonly [number, number] } = { redis: [7, 0], valkey: [7, 2] };

/** Commands on a key that is never there. @param args behind the key */
const onProbe = (names: string, args = "") => names.split(" ").map((name) => `${name} ${PROBE_KEY}${args}`);

/**
 * Every command that scripts and calls use, with arguments by which it changes nothing: its key is never there, or Redis
 * refuses the arguments, which it looks at after the rights of the user.
 */
export const TRIALS: readonly string[] = [
  "TIME",
  ...onProbe("DEL EXISTS GET HGETALL HLEN PERSIST PTTL UNLINK XLEN ZCARD"),
  ...onProbe("HDEL HEXISTS HGET HMGET ZREM ZSCORE", " member"),
  ...onProbe("PEXPIRE PEXPIREAT", " 1"),
  ...onProbe("HSET", " field value field-without-value"),
  ...onProbe("INCRBY", " no-number"),
  ...onProbe("SET", " value XX"),
  ...onProbe("XADD", " NOMKSTREAM * field value"),
  ...onProbe("XREVRANGE", " + - COUNT 1"),
  ...onProbe("XTRIM", " MINID 0"),
  ...onProbe("ZADD", " XX 0 member"),
  ...onProbe("ZRANGEBYLEX", " - + LIMIT 0 1"),
].sort();

/**
 * Tries commands as a script does, so that a refusal is no error of the connection. Redis looks at the rights of the
 * user before anything else, also on a replica, with its memory full, and for a slot of another node. Unlike the scripts of
 * `script.ts` it names no key, so that any node of a Cluster runs it.
 * ARGV: the commands. Answers the number and the error of each command that failed.
 */
const TRY = `local failed = {}
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word end
  local answer = redis.pcall(unpack(words))
  if type(answer) == 'table' and answer.err then
    failed[#failed + 1] = i
    failed[#failed + 1] = answer.err
  end
end
return failed`;

/** The name of a script that is nowhere. */
const NO_SCRIPT = "0".repeat(40);

/** How an error begins that says of a command in a script that the user may not run it: in 7.0, and since 7.2. */
const DENIED = /^(?:ERR |NOPERM )?(?:The user executing the script|ACL failure in script)/;

/** What a connection is used for besides the scripts. */
export interface RequirementOptions {
  /** Whether it leads to a node of a Cluster. */
  readonly isCluster: boolean;
  /** Whether replicas are waited for. */
  readonly waits: boolean;
}

/**
 * Checks whether Redis has the version that is needed and lets its user run every command that is needed.
 *
 * @throws StoreMisconfigured when it does not; what ioredis throws when it cannot be asked
 */
export async function requireUsable(redis: Redis, { isCluster, waits }: RequirementOptions): Promise<void> {
  const denied = await Promise.all([
    // ASKING is meant for the command behind it, so one follows that has no key.
    isCluster ? redis.asking().then(none, unlessDenied(["+asking"])) : none(),
    requireVersion(redis).then(none),
    isCluster ? redis.cluster("SLOTS").then(none, unlessDenied(["+cluster|slots"])) : none(),
    waits ? redis.wait(0, 1).then(none, unlessDenied(["+wait"])) : none(),
    redis.scan(0, "COUNT", 1).then(none, unlessDenied(["+scan"])),
    redis.evalsha(NO_SCRIPT, 0).then(none, unlessDenied(["+evalsha"])),
    redis.eval(TRY, 0, ...TRIALS).then(deniedOf, unlessDenied(["+eval"])),
  ]);
  const missing = denied.flat();
  if (missing.length === 0) return;
  throw new StoreMisconfigured(
    `Redis does not let the user of REDIS_URL do all that this service needs; grant it with: ACL SETUSER NAME ${missing.join(" ")}`,
  );
}

/** @throws StoreMisconfigured */
async function requireVersion(redis: Redis): Promise<void> {
  // Every user may send it.
  const told = (await redis.call("HELLO").catch((error: Error) => {
    if (/unknown command/i.test(error.message)) return ["server", "redis", "version", "older than 6.0"];
    throw error;
  })) as unknown[];
  const of = (name: string) => String(told[told.indexOf(name) + 1]);
  const [server, version] = [of("server"), of("version")];
  const [major, minor] = OLDEST[server] ?? (OLDEST["redis"] as readonly [number, number]);
  const [, foundMajor = 0, foundMinor = 0] = (/^(\d+)\.(\d+)/.exec(version) ?? []).map(Number);
  if (foundMajor > major || (foundMajor === major && foundMinor >= minor)) return;
  throw new StoreMisconfigured(`this is ${server} ${version}; the service needs Redis 7.0 or Valkey 7.2, or newer`);
}

/** The rights that are missing, as ACL SETUSER takes them. */
function deniedOf(answer: unknown): string[] {
  const failed = answer as readonly (number | string)[];
  const missing = new Set<string>();
  for (let i = 0; i < failed.length; i += 2) {
    const text = String(failed[i + 1]);
    if (!DENIED.test(text)) continue;
    const [command = ""] = (TRIALS[Number(failed[i]) - 1] ?? "").split(" ");
    missing.add(/\bkeys?\b/.test(text) ? "~ug:*" : `+${command.toLowerCase()}`);
  }
  return [...missing];
}

const none = (): string[] => [];

/** Takes an error for the rights that are missing, if it says that the user lacks them. */
function unlessDenied(rights: readonly string[]) {
  return (error: Error): string[] => {
    if (errorCodeOf(error) === "NOPERM") return [...rights];
    if (isNoCluster(error)) {
      throw new StoreMisconfigured("REDIS_URL names a Cluster, but this Redis is none; give it as redis://");
    }
    // Any other answer comes behind the look at the rights, such as that of a replica to WAIT.
    if (isRefusal(error)) return [];
    throw error;
  };
}

/**
 * Checks whether Redis is set up to keep its data.
 *
 * @param minReplicas how many replicas must confirm a change
 * @returns what an operator should know and do, one text for each
 * @throws StoreUnavailable
 */
export async function durabilityWarnings(client: StoreClient, minReplicas: number): Promise<readonly string[]> {
  const ofNodes = await client.each("info", (redis) => warningsOf(redis, minReplicas));
  // Nodes of a Cluster are mostly set up alike.
  return [...new Set(ofNodes.flat())];
}

/** What saves memory in Redis and is not set, for an operator; undefined: nothing, or it cannot be known. */
export async function memoryAdvice(client: StoreClient): Promise<string | undefined> {
  const settings = await client.each("info", (redis) =>
    redis.config("GET", "hash-max-listpack-value").then((answer) => (answer as string[])[1], unseen),
  );
  if (!settings.includes("64")) return undefined;
  return "Redis' hash-max-listpack-value is 64: user groups with longer mapping or properties take half as much memory again as with 1024";
}

async function warningsOf(redis: Redis, minReplicas: number): Promise<string[]> {
  const setting = (name: string) => redis.config("GET", name).then((answer) => (answer as string[])[1], unseen);
  // There is no warning of settings that Redis does not show to this user.
  const [memory, persistence, save, toWrite] = await Promise.all([
    redis.info("memory").catch(unseen),
    redis.info("persistence").catch(unseen),
    setting("save"),
    setting("min-replicas-to-write"),
  ]);
  const warnings: string[] = [];
  const policy = infoField(memory, "maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction") {
    warnings.push(
      `Redis may throw groups and tokens away when its memory is full: its maxmemory-policy is ${policy}; set it to noeviction`,
    );
  }
  if (infoField(persistence, "aof_enabled") === "0" && save === "") {
    warnings.push(
      "Redis writes nothing to disk, so a restart of it loses every group and token; turn on appendonly, or give it a save interval",
    );
  }
  if (minReplicas > 0 && toWrite === "0") {
    warnings.push(
      `MIN_REPLICAS_ACK is ${minReplicas}, but Redis' min-replicas-to-write is 0: a master that is cut off from its replicas goes on making changes that a failover loses, and answers reads with what is out of date; set min-replicas-to-write to ${minReplicas}`,
    );
  }
  return warnings;
}

function unseen(error: Error): undefined {
  if (!["NOPERM", "ERR"].includes(errorCodeOf(error) ?? "")) throw error;
  return undefined;
}

/** A field of the answer to INFO. */
export function infoField(info: string | undefined, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info ?? "")?.[1];
}
