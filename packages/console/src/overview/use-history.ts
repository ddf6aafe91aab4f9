import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { useWatched, type Watched } from "../parts/watch.ts";
import { useSession } from "../session/session.ts";
import { endOf, type Hour, mergeHour, OPEN_MS, SAMPLE_SECONDS } from "./history.ts";

/**
 * Reads the samples of the last hour, then reads new samples every `SAMPLE_SECONDS` while the page is visible.
 *
 * @param method the method of the calls. Default: all methods
 * @param environment the environment of the calls. Default: all environments
 */
export function useHistory(method?: string, environment?: EnvironmentName): Watched<Hour> {
  const { admin } = useSession();
  return useWatched<Hour>(
    `history ${method} ${environment && formatEnvironmentName(environment)}`,
    async (signal, { value: before }) => {
      const last = before?.samples.at(-1);
      const startTime = last && timestampFromMs(endOf(last) - OPEN_MS);
      const response = await admin.getMetricsHistory({ method, environment, startTime }, { signal });
      if (!before || before.instance === response.instance)
        return mergeHour(before, response, before?.isOther ?? false);
      // The samples of two processes must not be mixed, so the whole hour is read again.
      return mergeHour(undefined, await admin.getMetricsHistory({ method, environment }, { signal }), true);
    },
    () => SAMPLE_SECONDS * 1000,
  );
}
