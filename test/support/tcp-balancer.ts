import { connect, createServer, type Socket } from "node:net";
import { closeLater } from "@user-group-service/testing/opened";
import { listen } from "@user-group-service/testing/wait";

/**
 * Starts a TCP load balancer that assigns connections to servers in turn. The balancer skips servers that refuse a
 * connection.
 */
export async function newTcpBalancer(ports: readonly number[]): Promise<string> {
  const sockets = new Set<Socket>();
  let turn = 0;
  const server = createServer({ allowHalfOpen: true }, (client) => {
    client.on("error", () => {});
    const offer = ([port, ...others]: readonly number[]) => {
      if (port === undefined) return void client.destroy();
      const upstream = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
      const refused = () => offer(others);
      upstream.once("error", refused);
      upstream.once("connect", () => {
        upstream.off("error", refused);
        for (const [from, to] of [[client, upstream] as const, [upstream, client] as const]) {
          sockets.add(from);
          from.on("error", () => to.resetAndDestroy());
          from.on("close", () => sockets.delete(from));
          from.pipe(to);
        }
      });
    };
    const first = turn++ % ports.length;
    offer([...ports.slice(first), ...ports.slice(0, first)]);
  });
  const port = await listen(server);
  closeLater(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `http://127.0.0.1:${port}`;
}
