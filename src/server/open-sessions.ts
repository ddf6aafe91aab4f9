import type { Config } from "../config/config.ts";
import type { EnvironmentStore } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import { SigningKeys } from "../sessions/signing-keys.ts";
import { ViewerSessions } from "../sessions/viewer-sessions.ts";
import type { GroupDeps } from "../store/groups/group-record.ts";
import { redisSigningKeys } from "../store/secret-keys/signing-keys.ts";
import type { Lifecycle } from "./lifecycle.ts";

const LOOPBACK = /^(?:127\.|::1$|localhost$)/i;

/** Returns whether `HOST` is a loopback address. In this case, only this machine can connect to the service. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

export interface OpenDeps extends GroupDeps {
  readonly environments: Pick<EnvironmentStore, "find">;
  readonly lifecycle: Lifecycle;
  readonly logger: Logger;
}

export function openSessions(
  { publicUrl, host, viewerSessionMaxMs, apiTokenCacheMs }: Config,
  { client, cipher, audit, environments, logger }: OpenDeps,
) {
  let listenUrl: string | undefined;
  const signingKeys = new SigningKeys({
    store: redisSigningKeys({ client, cipher, audit, environments }),
    unsubscribedMs: apiTokenCacheMs,
    onOverdue: (error) =>
      logger.warn(
        errorFields(error),
        "the service could not make a due change of signing keys; the next attempt follows within two minutes",
      ),
  });
  const sessions = new ViewerSessions({
    keys: signingKeys,
    maxMs: viewerSessionMaxMs,
    publicUrl: () => publicUrl ?? (isLoopback(host) ? listenUrl : undefined),
  });
  return {
    sessions,
    signingKeys,
    /**
     * Sets the URL on which the service listens. If `PUBLIC_URL` is unset and `HOST` is a loopback address, this URL is
     * the public URL.
     */
    listensAt(url: string): void {
      listenUrl = url.replace(/\/$/, "");
    },
  };
}
