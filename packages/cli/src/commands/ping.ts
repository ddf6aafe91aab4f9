import { createClient } from "@connectrpc/connect";
import {
  Health,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../../gen/grpc/health/v1/health_pb.ts";
import { openTransport } from "../connection/transport.ts";
import { EXIT, Failure } from "../failures.ts";
import { explained } from "../session.ts";
import { urlText } from "../settings.ts";
import { type DefineCommand, runs } from "./command.ts";

interface PingOptions {
  readonly live?: boolean;
}

/** `ugs ping` */
export const pingCommand: DefineCommand = (command, shell) => {
  command.option("--live", "ask only whether it answers, ready or not");
  runs(command, shell, async (session, options: PingOptions) => {
    const connection = await session.settings.connection();
    const { signal } = session.shell;
    const transport = openTransport(connection, { token: undefined, signal, isRetrying: false });
    const started = performance.now();
    const answer = await explained(createClient(Health, transport), connection).check({});
    const where = urlText(connection);
    const isReady = answer.status === Status.SERVING;
    if (!isReady && !options.live)
      throw new Failure(`${where} answers, but is not ready: no change can be made`, {
        exitCode: EXIT.unavailable,
        hint: "it is shutting down, or its Redis is away: its log says more",
      });
    const words = isReady ? "is ready" : "is alive, but not ready";
    if (session.out.isJson) await session.out.message(HealthCheckResponseSchema, answer);
    else await session.out.line(`${where} ${words} (${Math.round(performance.now() - started)} ms)`);
  });
};
