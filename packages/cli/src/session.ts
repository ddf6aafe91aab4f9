import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { type Client, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { isRepeatable } from "@user-group-service/client";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { callFailure } from "./connection/call-failure.ts";
import { openTransport } from "./connection/transport.ts";
import { Output } from "./output/output.ts";
import { type Connection, type GlobalOptions, Settings, urlText } from "./settings.ts";
import type { Shell } from "./shell.ts";

/** Clients of the service. A failed call throws a `Failure`. */
export interface Clients {
  readonly admin: Client<typeof AdminService>;
  /** Makes a unary call of any service. */
  readonly call: <I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
  ) => Promise<MessageShape<O>>;
  /** Converts an error of a stream to a `Failure`. Returns any other error unchanged. */
  readonly failureOf: (error: unknown) => unknown;
  /** The URL of the service, for messages. */
  readonly url: string;
}

export interface Session {
  readonly shell: Shell;
  readonly settings: Settings;
  readonly out: Output;
}

export function openSession(shell: Shell, options: GlobalOptions): Session {
  return { shell, settings: new Settings(options, shell.env), out: new Output(shell, options.json === true) };
}

/** Creates clients according to the settings. @throws Failure if a setting is not valid */
export async function connect(session: Session): Promise<Clients> {
  const connection = await session.settings.connection();
  return clientsOf(connection, await session.settings.token(), session.shell);
}

export function clientsOf(connection: Connection, token: string, { signal }: Pick<Shell, "signal">): Clients {
  const transport = explaining(connection, openTransport(connection, { token, signal }));
  return {
    admin: createClient(AdminService, transport),
    call: async (method, request) => {
      const { message } = await transport.unary(method, undefined, undefined, undefined, request as never);
      return message;
    },
    failureOf: (error) => (error instanceof ConnectError ? callFailure(error, connection, { mayRepeat: true }) : error),
    url: urlText(connection),
  };
}

/** Wraps a transport, so that a failed call throws a `Failure`. */
export function explaining(connection: Connection, transport: Transport): Transport {
  return {
    ...transport,
    unary: async (method, ...rest) => {
      try {
        return await transport.unary(method, ...rest);
      } catch (error) {
        if (!(error instanceof ConnectError)) throw error;
        throw callFailure(error, connection, { mayRepeat: isRepeatable(method) });
      }
    },
  };
}
