import type { StartSubject } from "@user-group-service/testing/attacks/subject";
import { collectable } from "@user-group-service/testing/process-usage";
import type { OwnPortOptions } from "./own-ports.ts";
import { startPort } from "./start-port.ts";

export interface TalkPortOptions extends Pick<OwnPortOptions, "tls" | "maxConnections" | "deadSessionCheckMs"> {
  readonly authorization: string;
}

/** The token is constant, so that the seed of a fuzzer determines every byte of a request. */
export const AUTHORIZATION = "Bearer talk-0123456789abcdef";

export const PATHS = {
  say: "/talk.v1.TalkService/Say",
  /** A method that requires no token. */
  look: "/talk.v1.TalkService/Look",
  tell: "/talk.v1.TalkService/Tell",
  /** A method that requires no token and whose calls never end. */
  watch: "/talk.v1.TalkService/Watch",
  /** A method that is declared but not implemented. */
  absent: "/talk.v1.TalkService/Absent",
  talk: "/talk",
  health: "/healthz",
  /** Returns about 150 KB to any client, even if the client sends no token. */
  large: "/large",
} as const;

export const startTalk: StartSubject<Pick<TalkPortOptions, "maxConnections" | "deadSessionCheckMs">> = async (
  place,
  certificates,
  options,
) => {
  const tls = place.tls ? certificates.server : undefined;
  const given: TalkPortOptions = { ...options, tls, authorization: AUTHORIZATION };
  const port = await startPort("talk-port.ts", place.runtime, given, collectable(place.runtime));
  const headers = { authorization: AUTHORIZATION, "content-type": "application/json" };
  return {
    ...port,
    authorization: AUTHORIZATION,
    calls: {
      http1: { target: `${PATHS.talk}?from=bystander`, headers },
      http2: { target: PATHS.say, method: "POST", headers, body: '{"text":"bystander"}' },
    },
    end: port.stop,
  };
};
