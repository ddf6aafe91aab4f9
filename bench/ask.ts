import { deepStrictEqual } from "node:assert";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:http2";
import type { Answer, Call } from "./calls.ts";

type Asked = Call;

/** Makes one call and parses the answer. @throws if the call failed */
export async function ask(url: string, call: Asked, body = call.body): Promise<{ answer: Answer; bytes: number }> {
  const bytes = call.http === 2 ? await ask2(url, call, body) : await ask1(url, call, body);
  return { answer: call.read(bytes), bytes: bytes.byteLength };
}

/** @throws AssertionError if a field differs between the two answers and is not in `call.volatile` */
export function requireAlike(call: Call, answer: Answer, reference: Answer): void {
  deepStrictEqual(stable(call, answer), stable(call, reference));
}

function stable(call: Call, answer: Answer): Answer {
  const group = { ...(answer["userGroup"] as Answer | undefined) };
  for (const field of call.volatile) {
    if (!(field in group)) throw new Error(`${call.title}: the answer has no ${field}`);
    delete group[field];
  }
  return "userGroup" in answer ? { ...answer, userGroup: group } : answer;
}

async function ask1(url: string, call: Asked, body: Uint8Array | undefined): Promise<Uint8Array> {
  const req = request(`${url}${call.path}`, { method: body ? "POST" : "GET", headers: call.headers, agent: false });
  req.end(body);
  const [res] = await once(req, "response");
  const bytes = await collect(res);
  if (res.statusCode !== 200) throw new Error(`${call.title}: HTTP ${res.statusCode}: ${bytes}`);
  return bytes;
}

async function ask2(url: string, call: Asked, body: Uint8Array | undefined): Promise<Uint8Array> {
  const session = connect(url);
  try {
    const stream = session.request({ ...call.headers, ":path": call.path, ":method": body ? "POST" : "GET" });
    let status: unknown;
    stream.on("response", (headers) => {
      status = headers["grpc-status"];
    });
    stream.on("trailers", (trailers) => {
      status = trailers["grpc-status"];
    });
    stream.end(body);
    const bytes = await collect(stream);
    if (status !== "0") throw new Error(`${call.title}: grpc-status ${status}`);
    return bytes;
  } finally {
    session.close();
  }
}

async function collect(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}
