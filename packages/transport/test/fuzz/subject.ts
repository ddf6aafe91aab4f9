import { gzipSync } from "node:zlib";
import type { Place } from "@user-group-service/testing/attacks/place";
import type { Certificates } from "@user-group-service/testing/certificates";
import { type Ask, callsOf, openCall, preflight } from "@user-group-service/testing/fuzz/exchange";
import type { Fuzzed } from "@user-group-service/testing/fuzz/fuzz";
import { envelope } from "@user-group-service/testing/http";
import { AUTHORIZATION, PATHS, startTalk } from "../support/talk-ports.ts";

const MESSAGE = Buffer.from("\n\u0004fuzz", "latin1");
const TEXT = Buffer.from('{"text":"fuzz","properties":{"a":[1,null]}}');

/** The port of the test service, as a fuzzing target. */
export function fuzzedPort(place: Place, certificates: Certificates): Fuzzed {
  return { name: "port", corpus: [...asCaller(), ...asAnyone()], start: () => startTalk(place, certificates) };
}

function asCaller(): Ask[] {
  const token = ["authorization", AUTHORIZATION] as const;
  const ask = (name: string, method: string, more: Partial<Ask> = {}): Ask => ({
    name: `endpoint, ${name}`,
    method,
    path: PATHS.talk,
    fields: [token],
    ...more,
  });
  return [
    ask("GET", "GET", { path: `${PATHS.talk}?text=fuzz&name=F%C3%A9` }),
    ask("PUT", "PUT", { body: TEXT }),
    ask("PUT, gzip", "PUT", { body: gzipSync(TEXT), fields: [token, ["content-encoding", "gzip"]] }),
    ask("POST", "POST", { body: TEXT, fields: [token, ["idempotency-key", "k1"]] }),
    ...callsOf({ path: PATHS.say, proto: MESSAGE, json: '{"text":"fuzz"}', authorization: AUTHORIZATION }),
    ...callsOf({ path: PATHS.tell, proto: MESSAGE, json: '{"text":"fuzz"}', authorization: AUTHORIZATION }).slice(0, 4),
  ];
}

function asAnyone(): Ask[] {
  const empty = envelope(Buffer.alloc(0));
  return [
    { name: "healthz", method: "GET", path: PATHS.health, fields: [] },
    { name: "healthz, HEAD", method: "HEAD", path: PATHS.health, fields: [] },
    { name: "large", method: "GET", path: PATHS.large, fields: [["accept-encoding", "gzip"]] },
    preflight(PATHS.say),
    openCall("Look", PATHS.look, empty),
    { ...openCall("Watch", PATHS.watch, empty, "application/grpc", [["grpc-accept-encoding", "br"]]), isEndless: true },
    {
      ...openCall("Watch, Connect", PATHS.watch, envelope(Buffer.from("{}")), "application/connect+json"),
      isEndless: true,
    },
    openCall("absent method", PATHS.absent, envelope(MESSAGE)),
    openCall("unknown method", "/talk.v1.TalkService/Unknown", envelope(MESSAGE)),
    { name: "unknown path", method: "GET", path: "/nothing", fields: [] },
  ];
}
