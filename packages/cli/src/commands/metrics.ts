import type { Duration } from "@bufbuild/protobuf/wkt";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { MetricsSample } from "../../../../gen/usergroup/admin/v1/metrics_pb.ts";
import { exactMs } from "../../../operator/src/times.ts";
import type { ColumnOf } from "../output/table.ts";
import { FieldOption, rpcCommand } from "./rpc-command.ts";

function column(name: string, of: (sample: MetricsSample) => string | undefined): ColumnOf {
  return { name, of: (sample) => of(sample as MetricsSample) };
}

function errorsText({ errors }: MetricsSample): string {
  return Object.entries(errors)
    .map(([reason, count]) => `${reason}=${count}`)
    .join(" ");
}

function msText(duration: Duration | undefined): string | undefined {
  return duration && `${Number(exactMs(duration).toPrecision(3))}ms`;
}

export const metricsCommand = rpcCommand(
  AdminService.method.getMetricsHistory,
  "show the numbers, durations and errors of the calls in the last hour, one line per ten seconds",
  {
    fields: {
      method: new FieldOption(
        "--method <name>",
        "only calls of this RPC, such as GetUserGroup; needs ADMIN_TOKEN",
      ).conflicts("env"),
      start_time: new FieldOption(
        "--since <when>",
        "only samples since this time: a time, or a duration before now such as 5m; default: 1h",
      ),
    },
    columns: [
      "end_time",
      column("CALLS", ({ calls }) => String(calls)),
      column("P50", ({ p50 }) => msText(p50)),
      column("P99", ({ p99 }) => msText(p99)),
      column("ERRORS", errorsText),
    ],
    none: "There are no samples yet: the service takes the first sample ten seconds after its start.",
  },
);
