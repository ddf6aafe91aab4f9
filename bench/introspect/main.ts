import { ask } from "../ask.ts";
import { type Answer, GROUP_FIELDS } from "../calls.ts";
import { describeMachine, prepareMachine } from "../machine.ts";
import { noise, quartiles, report, table, whole } from "../report.ts";
import { serviceRow } from "../rows.ts";
import { findRuntimes } from "../runtimes.ts";
import { API_TOKEN, onStage, PATIENT, startStore } from "../stage.ts";
import { median, summarise } from "../statistics.ts";
import { type Turn, takeTurns } from "../turns.ts";
import { CONNECTIONS, creation, type IntrospectCall, introspectCalls, type Subject } from "./calls.ts";

const GROUP_ID = "acme-4711";

/** Each starts the service anew: how a process turns out differs by some per cent. */
const ROUNDS = 3;
/** In each round, to and fro. */
const TURNS = 6;
/** In seconds. */
const DURATIONS = { warmUp: 4, turn: 1.5, paced: 0 };
const QUICK = { warmUp: 0.5, turn: 0.4, paced: 0 };

/** @param args `--quick`: one round of short turns, to see that it works */
export async function main(args: readonly string[]): Promise<void> {
  prepareMachine();
  const isQuick = args.includes("--quick");
  const rounds = isQuick ? 1 : ROUNDS;
  const runtimes = findRuntimes(["node"]);
  const turns: Turn[] = [];
  let calls: readonly IntrospectCall[] = [];
  for (let bout = 0; bout < rounds; bout++) {
    await onStage(runtimes, await startStore(), async (stage) => {
      const server = await stage.start(serviceRow("node"), PATIENT);
      calls = introspectCalls(await seed(server.url(1)));
      const subjects = calls.map((call) => ({ server, call, check: (answer: Answer) => requireRight(call, answer) }));
      const options = { durations: isQuick ? QUICK : DURATIONS, turns: TURNS, bout };
      turns.push(...(await takeTurns(subjects, stage, options)).turns);
    });
    console.error(`round ${bout + 1} is done`);
  }
  const head =
    `${describeMachine(runtimes)}; one worker on a core of its own, Redis and the load on the other. ` +
    `Medians of ${rounds * TURNS} turns in ${rounds} rounds, quartiles in brackets. ${noise(turns)}`;
  report([head, costs(calls, turns), ratios(turns)].join("\n\n"), isQuick ? undefined : "introspect");
}

/** Makes a group and a session of it. */
async function seed(url: string): Promise<Subject> {
  const made = creation({ apiToken: API_TOKEN, groupId: GROUP_ID });
  const path = "/usergroup.v1.UserGroupService/GetUserGroup";
  const body = Buffer.from(JSON.stringify({ userGroupId: GROUP_ID, ...GROUP_FIELDS }));
  const { answer } = await ask(url, { ...made, path, body });
  const { token } = answer["userGroup"] as { token: string };
  const { session } = (await ask(url, made)).answer;
  return { apiToken: API_TOKEN, groupId: GROUP_ID, userGroupToken: token, session: String(session) };
}

/** @throws when a call is not answered as it should be: an inactive token is answered by 200 as well */
function requireRight(call: IntrospectCall, answer: Answer): void {
  const isRight =
    call.path === "/api/viewer" ? answer["active"] === true && answer["sub"] === GROUP_ID : "id" in answer;
  if (!isRight) throw new Error(`${call.title}: answered with ${JSON.stringify(answer)}`);
}

function costs(calls: readonly IntrospectCall[], turns: readonly Turn[]): string {
  const lines = calls.map(({ key, title, connections }) => {
    const own = turns.filter((turn) => turn.call === key);
    const of = (pick: (turn: Turn) => number) => summarise(own.map(pick));
    const middle = (pick: (turn: Turn) => number) => median(own.map(pick));
    // Where the service did not use its core up, something else was the limit.
    const bound = middle((turn) => turn.serverBusy) < 0.9 ? "≥ " : "";
    return [
      title,
      String(connections),
      bound + whole(middle((turn) => turn.callsPerSecond)),
      quartiles(
        of((turn) => turn.cpuMicros),
        1,
      ),
      middle((turn) => turn.storeMicros).toFixed(1),
      quartiles(
        of((turn) => 1e6 / (turn.cpuMicros + turn.storeMicros)),
        whole,
      ),
      middle((turn) => turn.latency?.p50 ?? Number.NaN).toFixed(1),
      middle((turn) => turn.latency?.p99 ?? Number.NaN).toFixed(1),
    ];
  });
  const figures = ["CPU µs a call: service", "store", "calls a second for each core", "p50 ms", "p99 ms"];
  const columns = ["connections", "calls a second", ...figures];
  return table(["call", ...columns.map((column) => `>${column}`)], lines);
}

/** What a session costs beside a token, turn by turn. */
function ratios(turns: readonly Turn[]): string {
  const lines = CONNECTIONS.map((connections) => {
    const pairs = turns
      .filter(({ call }) => call === `session-${connections}`)
      .flatMap((session) => {
        const isBeside = ({ call, number }: Turn) => call === `token-${connections}` && number === session.number;
        const token = turns.find(isBeside);
        return token ? [{ session, token }] : [];
      });
    const of = (pick: (turn: Turn) => number) =>
      quartiles(summarise(pairs.map(({ session, token }) => pick(session) / pick(token))), 2);
    const both = of((turn) => turn.cpuMicros + turn.storeMicros);
    return [`${connections} connections`, "1.20", of((turn) => turn.cpuMicros), both];
  });
  return table(["a session ÷ a token, CPU a call", ">at most", ">service", ">with the store"], lines);
}
