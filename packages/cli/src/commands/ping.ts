import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { Option } from "commander";
import {
  Health,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../../gen/grpc/health/v1/health_pb.ts";
import { openTransport } from "../connection/transport.ts";
import { EXIT, Failure } from "../failures.ts";
import type { Session } from "../session.ts";
import { urlText } from "../settings.ts";
import { type DefineCommand, runs } from "./command.ts";
import { checkLocally } from "./ping-local.ts";

interface PingOptions {
  readonly changes?: boolean;
  readonly live?: boolean;
  readonly local?: boolean;
}

export const pingCommand: DefineCommand = (command, shell) => {
  command.description("check that the service is ready for reads (with --changes: for changes); needs no token");
  command.addOption(new Option("--changes", "check readiness for changes; default: for reads").conflicts("live"));
  command.option("--live", "check only that the service responds");
  command.option(
    "--local",
    "check the service whose settings (PORT, METRICS_PORT, ...) are in the environment variables",
  );
  runs(command, shell, async (session, options: PingOptions) => {
    const { changes, live, local } = options;
    const started = performance.now();
    const path = live ? "/healthz" : changes ? "/readyz?changes" : "/readyz";
    const { where, isReady } = await (local ? checkLocally(session, path) : check(session, options));
    if (!isReady && (!live || local))
      throw new Failure(`${where} responds, but is not ready: ${changes ? "changes" : "reads"} fail`, {
        exitCode: EXIT.unavailable,
        hint: `the service is shutting down, or its Redis ${changes ? "rejects changes" : "is unavailable"}: see the log of the service`,
      });
    const words = isReady ? (local && live ? "is alive" : "is ready") : "is alive, but not ready";
    const status = isReady ? Status.SERVING : Status.NOT_SERVING;
    if (session.out.isJson)
      await session.out.message(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }));
    else await session.out.line(`${where} ${words} (${Math.round(performance.now() - started)} ms)`);
  });
};

async function check({ settings, shell: { signal } }: Session, { changes }: PingOptions) {
  const connection = await settings.connection();
  const transport = openTransport(connection, { token: undefined, signal, isRetrying: false });
  const { status } = await createClient(Health, transport).check({ service: changes ? "changes" : "" });
  return { where: urlText(connection), isReady: status === Status.SERVING };
}
