import type { StartSubject } from "@user-group-service/testing/attacks/subject";
import { collectable } from "@user-group-service/testing/process-usage";
import type { OwnPortOptions } from "./own-ports.ts";
import { startPort } from "./start-port.ts";

/** How the test service is served: `talk-port.ts`. */
export interface TalkPortOptions extends Pick<OwnPortOptions, "tls" | "maxConnections"> {
  /** The value of `Authorization` that lets a caller in. */
  readonly authorization: string;
}

/** The same every time, so that the seed of a fuzzer decides every byte. */
export const AUTHORIZATION = "Bearer talk-0123456789abcdef";

/** Paths of RPCs and endpoints. */
export const PATHS = {
  say: "/talk.v1.TalkService/Say",
  /** Anyone may call it, as `watch`, which goes on. */
  look: "/talk.v1.TalkService/Look",
  tell: "/talk.v1.TalkService/Tell",
  watch: "/talk.v1.TalkService/Watch",
  /** Is declared, and not implemented. */
  absent: "/talk.v1.TalkService/Absent",
  /** An endpoint that calls `Tell`. */
  talk: "/talk",
  health: "/healthz",
  /** Answers some 150 KB to anyone. */
  large: "/large",
} as const;

/** Starts the test service on a port of its own. */
export const startTalk: StartSubject<Pick<TalkPortOptions, "maxConnections">> = async (
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
