import { ask } from "@user-group-service/testing/attacks/repeated";
import { post, protoField } from "@user-group-service/testing/attacks/requests";
import { envelope, overHttp2 } from "@user-group-service/testing/http";
import { newApiToken } from "../../src/domain/token.ts";
import { openMonitor } from "../support/monitor.ts";
import { PATHS } from "../support/subject.ts";
import { type Attack, describeAttacks, type Target } from "./service.ts";

const GUESSES = 2000;

/** Number of networks from which an attack sends guesses. A worker keeps counters for fewer networks. */
const NETWORKS = 12_000;

/** Matches the Redis commands that a guess causes: the lookup of the API token, and the count of the failure. */
const OF_A_GUESS = /^eval(?:sha)? .+ (?:2 ug:\{\d+\}:environment ug:\{\d+\}:api-tokens |1 ug:rate:)/is;

/** Sends guessed API tokens with a valid format over one connection. Returns the number of responses by gRPC status. */
function guess(
  target: Target,
  {
    times = GUESSES,
    fieldsOf = () => [] as [string, string][],
  }: { times?: number; fieldsOf?: (i: number) => [string, string][] } = {},
): Promise<Map<string, number>> {
  return overHttp2(target.server.url, async (session) => {
    const statuses = new Map<string, number>();
    for (let i = 0; i < times; i++) {
      const authorization = ["authorization", `Token ${newApiToken()}`] as const;
      const fields = post(PATHS.get, "application/grpc", [authorization, ...fieldsOf(i)]);
      const { headers } = await ask(session, fields, envelope(protoField(1, "a")));
      const status = String(headers["grpc-status"]);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    return statuses;
  });
}

/**
 * @param expected returns whether the numbers of responses and of Redis commands are right. `statuses` maps a gRPC
 *   status to a number of responses. 16 is UNAUTHENTICATED, and 8 is RESOURCE_EXHAUSTED
 */
function guessing(
  title: string,
  limit: string,
  expected: (statuses: ReadonlyMap<string, number>, commands: number) => boolean,
): Attack {
  return {
    title,
    bounds: { cpuMs: 5, heldKiB: 65_536 },
    options: { needsRedis: true, env: { AUTH_FAILURE_LIMIT: limit } },
    run: async (target) => {
      const { redis } = target.server;
      if (!redis) throw new Error("there is no Redis");
      const monitor = await openMonitor(redis);
      const statuses = await guess(target);
      const commands = (await monitor.commands()).filter((command) => OF_A_GUESS.test(command)).length;
      monitor.close();
      const reported = [...statuses].map(([status, times]) => `${times} times ${status}`).join(", ");
      if (!expected(statuses, commands)) throw new Error(`${reported}, ${commands} Redis commands`);
      const each = Number((commands / GUESSES).toPrecision(2));
      return { requests: GUESSES, outcome: `refused, ${each} Redis commands` };
    },
  };
}

describeAttacks("expensive responses", [
  guessing(
    `guessed API tokens (${GUESSES.toLocaleString("en")}), one address`,
    "",
    (statuses, commands) =>
      (statuses.get("16") ?? 0) >= 60 &&
      (statuses.get("16") ?? 0) + (statuses.get("8") ?? 0) === GUESSES &&
      // Each guess costs one command for the lookup. If the guess is within the limit, it costs at most one more
      // command, to count the failure.
      commands > GUESSES &&
      commands <= GUESSES + (statuses.get("16") ?? 0),
  ),
  guessing(
    `guessed API tokens (${GUESSES.toLocaleString("en")}), \`AUTH_FAILURE_LIMIT=off\``,
    "off",
    (statuses, commands) => statuses.get("16") === GUESSES && commands === GUESSES,
  ),
  {
    title: `guessed API tokens from ${NETWORKS.toLocaleString("en")} networks of IPv6`,
    // The first round creates as many counters as a worker keeps.
    isRehearsed: true,
    bounds: { cpuMs: 5, heldKiB: 65_536 },
    options: { env: { AUTH_FAILURE_LIMIT: "1/1h", TRUSTED_PROXIES: "127.0.0.1" } },
    run: async (target) => {
      const network = (i: number): [string, string] => ["x-forwarded-for", `2001:db8:${i.toString(16)}::1`];
      const statuses = await guess(target, { times: NETWORKS, fieldsOf: (i) => [network(i)] });
      if (statuses.get("16") !== NETWORKS) throw new Error(`only ${statuses.get("16")} guesses got UNAUTHENTICATED`);
      return { requests: NETWORKS, outcome: "refused" };
    },
  },
]);
