import type { Duration } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import type { MetricsSample, ServiceSample as ServiceMessage } from "../../../gen/usergroup/admin/v1/metrics_pb.ts";
import { environmentPath, parseEnvironmentPath } from "../../domain/environment.ts";
import type { CallSample, Calls, ServiceSample } from "../../observability/history.ts";
import { denial } from "../access.ts";
import { callOf } from "../call-context.ts";
import { callError, invalidField } from "../errors.ts";
import { timeOf, timestamp } from "../messages.ts";
import { environmentNameMessage } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, targetName } from "./requests.ts";

/** Creates GetMetricsHistory. This RPC does not read the store, so it works even while Redis is down. */
export function metricsRpcs({ readHistory }: AdminDeps) {
  return {
    async getMetricsHistory({ environment: named, method, startTime }, { values }) {
      const { caller } = callOf(values);
      if (method !== "") {
        if (caller.environment) throw denial(caller.role, { name: "GetMetricsHistory by method" }, "root");
        if (named) throw invalidField("method", "must be empty if environment is set");
      }
      const path = (caller.environment || named) && environmentPath(targetName(caller, named));
      const history = await readHistory({
        method: method || undefined,
        // Select by number, because a deleted environment with the same name may have belonged to another owner.
        environmentNumber: caller.environment?.number,
        environmentPath: caller.environment ? undefined : path,
        after: timeOf(startTime) ?? 0,
      });
      if (!history) throw callError(Code.Unavailable, UNCOLLECTED, { reason: "UNAVAILABLE" });
      return {
        instance: history.instance,
        samples: history.samples.map(sampleMessage),
        methods: history.methods.map(({ method, ...calls }) => ({ method, ...sumMessage(calls) })),
        environments: history.environments.map(({ path: of, ...calls }) => {
          const name = of === undefined ? undefined : parseEnvironmentPath(of);
          return { environment: name && environmentNameMessage(name), ...sumMessage(calls) };
        }),
      };
    },
  } satisfies Partial<AdminRpcs>;
}

const UNCOLLECTED = "the samples of the workers could not be collected, because a process is busy; try again";

function sampleMessage({ endTime, calls, errors, p50, p99, service }: CallSample): MetricsSample {
  return {
    $typeName: "usergroup.admin.v1.MetricsSample",
    endTime: timestamp(endTime),
    calls,
    errors,
    p50: duration(p50),
    p99: duration(p99),
    service: service && serviceMessage(service),
  };
}

function serviceMessage({ redisP50, redisP99, ...numbers }: ServiceSample): ServiceMessage {
  const durations = { redisP50: duration(redisP50), redisP99: duration(redisP99) };
  return { $typeName: "usergroup.admin.v1.ServiceSample", ...numbers, ...durations };
}

function sumMessage({ calls, errors, p99 }: Calls) {
  return { calls, failedCalls: Object.values(errors).reduce((sum, count) => sum + count, 0), p99: duration(p99) };
}

function duration(seconds: number | undefined): Duration | undefined {
  if (seconds === undefined) return undefined;
  const whole = Math.floor(seconds);
  const nanos = Math.round((seconds - whole) * 1e6) * 1000;
  return { $typeName: "google.protobuf.Duration", seconds: BigInt(whole), nanos: Math.min(nanos, 999_999_000) };
}
