import { create } from "@bufbuild/protobuf";
import {
  Health,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../../gen/grpc/health/v1/health_pb.ts";
import { openTransport } from "../connection/transport.ts";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { explained, type Session } from "../session.ts";
import { urlText } from "../settings.ts";
import { type DefineCommand, runs } from "./command.ts";
import { askLocally } from "./ping-local.ts";

interface PingOptions {
  readonly changes?: boolean;
  readonly live?: boolean;
  readonly local?: boolean;
}

/** `ugs ping` */
export const pingCommand: DefineCommand = (command, shell) => {
  command.option("--changes", "ask whether changes work; without it, whether reads do");
  command.option("--live", "ask only whether it answers, ready or not");
  command.option("--local", "the service whose settings (PORT, METRICS_PORT, ...) are in the environment");
  runs(command, shell, async (session, options: PingOptions) => {
    const { changes, live, local } = options;
    if (changes && live) throw usageFailure("--changes and --live exclude each other");
    const started = performance.now();
    const { where, isReady } = await (local ? askHere : ask)(session, options);
    if (!isReady && (!live || local))
      throw new Failure(`${where} answers, but is not ready: ${changes ? "changes" : "reads"} fail`, {
        exitCode: EXIT.unavailable,
        hint: `it is shutting down, or its Redis ${changes ? "refuses changes" : "is away"}: its log says more`,
      });
    const words = isReady ? (local && live ? "is alive" : "is ready") : "is alive, but not ready";
    const status = isReady ? Status.SERVING : Status.NOT_SERVING;
    if (session.out.isJson)
      await session.out.message(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }));
    else await session.out.line(`${where} ${words} (${Math.round(performance.now() - started)} ms)`);
  });
};

/** Asks by gRPC's health service. */
async function ask({ settings, shell: { signal } }: Session, { changes }: PingOptions): Promise<Answer> {
  const connection = await settings.connection();
  const transport = openTransport(connection, { token: undefined, signal, isRetrying: false });
  const { status } = await explained(Health, { transport, connection }).check({
    service: changes ? "changes" : "",
  });
  return { where: urlText(connection), isReady: status === Status.SERVING };
}

async function askHere(session: Session, { changes, live }: PingOptions): Promise<Answer> {
  const { url, isSo } = await askLocally(session, live ? "/healthz" : changes ? "/readyz?changes" : "/readyz");
  return { where: url, isReady: isSo };
}

interface Answer {
  readonly where: string;
  readonly isReady: boolean;
}
