import { ask } from "../ask.ts";
import { type Answer, type Call, type CallKey, calls, GROUP_FIELDS } from "../calls.ts";
import type { Row } from "../rows.ts";
import { API_TOKEN, PATIENT, type Stage } from "../stage.ts";
import { writePeerRecords } from "./peer-records.ts";

export interface Seeded {
  readonly call: Call;
  readonly reference: Answer;
}

/** Creates the groups through the service. Returns the calls, each with the answer of the service as the reference. */
export async function seed(
  { start, store }: Stage,
  row: Row,
  keys: readonly CallKey[],
): Promise<ReadonlyMap<CallKey, Seeded>> {
  const server = await start(row, PATIENT);
  try {
    const made = { apiToken: API_TOKEN, readId: "acme-4711", writtenId: "acme-4712", userGroupToken: "" };
    const creator = calls(made).get("create");
    if (!creator) throw new Error("no call creates a group");
    const create = async (id: string) => {
      const body = Buffer.from(JSON.stringify({ userGroupId: id, ...GROUP_FIELDS }));
      const { answer } = await ask(server.url(creator.http), creator, body);
      return answer["userGroup"] as Answer;
    };
    const group = await create(made.readId);
    await writePeerRecords(store.url, group);
    await create(made.writtenId);
    // `calls` lists the updates before the rotations. So the answer to a rotation contains the updated group. In
    // the benchmark, the updates also run before the rotations.
    const seeded = new Map<CallKey, Seeded>();
    for (const [key, call] of calls({ ...made, userGroupToken: String(group["token"]) })) {
      if (!keys.includes(key)) continue;
      const { answer } = await ask(server.url(call.http), call, bodyOnce(call));
      seeded.set(key, { call, reference: answer });
    }
    return seeded;
  } finally {
    await server.stop();
  }
}

let created = 0;

export function bodyOnce(call: Call): Uint8Array | undefined {
  if (call.key !== "create") return call.body;
  return Buffer.from(String(call.body).replace('"ID"', `"checked-${process.pid}-${created++}"`));
}
