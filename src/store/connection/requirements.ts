import type { Redis } from "ioredis";
import { errorCodeOf, isNoCluster, isRefusal, StoreMisconfigured } from "./errors.ts";

/** A key that never exists, for health checks. */
export const PROBE_KEY = "ug:probe";

/** The oldest supported version of each server. The numbers are the major and the minor number of the version. */
export const OLDEST: { readonly [server: string]: readonly [number, number] } = { redis: [7, 0], valkey: [7, 2] };

const onProbeKey = (names: string, args = "") => names.split(" ").map((name) => `${name} ${PROBE_KEY}${args}`);

/**
 * Every command that scripts and calls use. The commands change nothing, because the key does not exist, or because
 * Redis refuses the arguments. Redis checks the rights of the user before the arguments.
 */
export const TRIALS: readonly string[] = [
  "TIME",
  ...onProbeKey("DEL EXISTS GET HGETALL HLEN PERSIST PTTL UNLINK XLEN ZCARD"),
  ...onProbeKey("HDEL HEXISTS HGET HMGET ZREM ZSCORE", " member"),
  ...onProbeKey("PEXPIRE PEXPIREAT", " 1"),
  ...onProbeKey("HSET", " field value field-without-value"),
  ...onProbeKey("INCRBY", " no-number"),
  ...onProbeKey("SET", " value XX"),
  ...onProbeKey("XADD", " NOMKSTREAM * field value"),
  ...onProbeKey("XRANGE", " - + COUNT 1"),
  ...onProbeKey("XREVRANGE", " + - COUNT 1"),
  ...onProbeKey("XTRIM", " MINID 0"),
  ...onProbeKey("ZADD", " XX 0 member"),
  ...onProbeKey("ZRANGEBYLEX", " - + LIMIT 0 1"),
].sort();

/**
 * Runs the commands in ARGV in a script, so that ioredis does not handle the errors of the commands. Redis checks the
 * rights first, so the check works even if the node is a replica, if its memory is full, or if another node has the
 * slot. The script declares no keys, so any node of a Cluster runs the script. Returns the index and the error of each
 * failed command.
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

const NO_SCRIPT = "0".repeat(40);

/**
 * Matches the error of a command that the user may not run in a script. The error text depends on the version of Redis.
 */
const DENIED = /^(?:ERR |NOPERM )?(?:The user executing the script|ACL failure in script)/;

interface RequirementOptions {
  readonly isCluster: boolean;
  readonly waits: boolean;
}

/**
 * Checks that Redis has a supported version, and that the Redis user may run every command of the service.
 *
 * @throws StoreMisconfigured if the version is too old or a right is missing; the error of ioredis if Redis does not
 *   answer
 */
export async function requireUsable(redis: Redis, { isCluster, waits }: RequirementOptions): Promise<void> {
  const denied = await Promise.all([
    // ASKING affects only the next command on this connection. Here, the next command is HELLO, which has no key, so
    // ASKING has no effect.
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
    `the user in REDIS_URL lacks rights in Redis; grant them with: ACL SETUSER NAME ${missing.join(" ")}`,
  );
}

async function requireVersion(redis: Redis): Promise<void> {
  // Every user has the right to send HELLO.
  const answer = (await redis.call("HELLO").catch((error: Error) => {
    if (/unknown command/i.test(error.message)) return ["server", "redis", "version", "older than 6.0"];
    throw error;
  })) as unknown[];
  const of = (name: string) => String(answer[answer.indexOf(name) + 1]);
  const [server, version] = [of("server"), of("version")];
  const [major, minor] = OLDEST[server] ?? (OLDEST["redis"] as readonly [number, number]);
  const [, foundMajor = 0, foundMinor = 0] = (/^(\d+)\.(\d+)/.exec(version) ?? []).map(Number);
  if (foundMajor > major || (foundMajor === major && foundMinor >= minor)) return;
  throw new StoreMisconfigured(`this is ${server} ${version}; the service needs Redis 7.0 or Valkey 7.2, or newer`);
}

/** Returns the missing rights, in the form of ACL SETUSER. */
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

/** Returns an error handler. If an error shows that the user lacks `rights`, the handler returns `rights`. */
function unlessDenied(rights: readonly string[]) {
  return (error: Error): string[] => {
    if (errorCodeOf(error) === "NOPERM") return [...rights];
    if (isNoCluster(error)) {
      throw new StoreMisconfigured(
        "REDIS_URL begins with redis-cluster://, but this Redis is not a Cluster: begin REDIS_URL with redis://",
      );
    }
    // Redis checks the rights first. If Redis refuses the command for another reason, the user has the right.
    if (isRefusal(error)) return [];
    throw error;
  };
}
