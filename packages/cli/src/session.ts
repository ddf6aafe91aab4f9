import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { openTransport, type TransportOptions } from "./connection/transport.ts";
import { Output } from "./output/output.ts";
import { type Connection, type GlobalOptions, Settings } from "./settings.ts";
import type { Shell } from "./shell.ts";

/**
 * Clients of the service. A failed unary call throws a `Failure`. A failed stream throws a `ConnectError`: convert this
 * error with `callFailure`.
 */
export interface Clients {
  readonly connection: Connection;
  readonly admin: Client<typeof AdminService>;
  /** Like `admin`, but sends JSON and does not retry failed calls. */
  readonly adminOnce: Client<typeof AdminService>;
  readonly call: <I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
  ) => Promise<MessageShape<O>>;
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
export async function connect({ settings, shell }: Session): Promise<Clients> {
  const connection = await settings.connection();
  return clientsOf(connection, { token: await settings.token(), signal: shell.signal });
}

export function clientsOf(connection: Connection, options: TransportOptions): Clients {
  const transport = openTransport(connection, options);
  return {
    connection,
    admin: createClient(AdminService, transport),
    adminOnce: createClient(AdminService, openTransport(connection, { ...options, isRetrying: false, isJson: true })),
    call: async (method, request) => {
      const { message } = await transport.unary(method, undefined, undefined, undefined, request as never);
      return message;
    },
  };
}
