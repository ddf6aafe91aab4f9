import type { Config } from "../config/config.ts";
import { environmentPath } from "../domain/environment.ts";
import type { EnvironmentStore } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import { SigningKeys } from "../sessions/signing-keys.ts";
import { ViewerSessions } from "../sessions/viewer-sessions.ts";
import type { FeedListener } from "../store/api-tokens/revocation-feed.ts";
import type { GroupDeps } from "../store/groups/group-record.ts";
import { redisSigningKeys } from "../store/secret-keys/signing-keys.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** Addresses that no other machine reaches. */
const LOOPBACK = /^(?:127\.|::1$|localhost$)/i;

/** Whether a setting `HOST` lets this machine alone connect. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

/** What sessions and the authentication of API tokens are opened with. */
export interface OpenDeps extends GroupDeps {
  readonly environments: Pick<EnvironmentStore, "find">;
  readonly lifecycle: Lifecycle;
  readonly logger: Logger;
}

/** Opens what makes and checks viewer sessions. */
export function openSessions(
  { publicUrl, host, viewerSessionMaxMs, apiTokenCacheMs }: Config,
  { client, cipher, audit, environments, lifecycle, logger }: OpenDeps,
) {
  let listenUrl: string | undefined;
  const signingKeys = new SigningKeys({
    store: redisSigningKeys({ client, cipher, audit, environments }),
    unsubscribedMs: apiTokenCacheMs,
    onOverdue: (error) =>
      logger.warn(errorFields(error), "signing keys could not be changed though it is time; it is tried again"),
  });
  lifecycle.onClose("signing keys", () => signingKeys.close());
  const sessions = new ViewerSessions({
    keys: signingKeys,
    maxMs: viewerSessionMaxMs,
    publicUrl: () => publicUrl ?? (isLoopback(host) ? listenUrl : undefined),
  });
  return {
    sessions,
    signingKeys,
    /** Is told where the service listens, which is where it is reached unless that is set. */
    listensAt(url: string): void {
      listenUrl = url.replace(/\/$/, "");
    },
    /** Creates the listener for revocations and signing-key changes. @param listener for revocations of API tokens */
    createListener(listener: FeedListener): FeedListener {
      return {
        revoked: (digest) => listener.revoked(digest),
        environmentDeleted(environment) {
          listener.environmentDeleted(environment);
          signingKeys.forget(environmentPath(environment));
        },
        signingKeysChanged: (environment) => signingKeys.forget(environmentPath(environment)),
        missed() {
          listener.missed();
          signingKeys.setSubscribed(true);
          signingKeys.forget();
        },
        refused(error) {
          listener.refused(error);
          signingKeys.setSubscribed(false);
        },
      };
    },
  };
}
