import { connect, createServer, type Server, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";

/** The name of every process that opens connections, but is not a node of the network. */
export const CLIENT = "client";

/** A proxy in front of a node. Clients and the other nodes connect to the proxy instead of the node. */
export interface Link {
  readonly port: number;
  /** Sets the port of the node. Connections that are opened before this call wait for the call. */
  leadTo(port: number): void;
}

export interface Disturbance {
  readonly delayMs?: () => number;
  /**
   * Receives the length of a response in bytes. If it returns a number, the proxy sends this number of bytes of the
   * response, and then breaks the connection. If it returns undefined, the connection stays open.
   */
  readonly cutAt?: (bytes: number) => number | undefined;
  readonly rewrite?: (answer: Buffer) => Buffer;
}

interface Connection {
  readonly from: string;
  readonly to: string;
  readonly ends: readonly [Socket, Socket];
}

/**
 * A network of proxies between nodes on one machine. A node is reached only through its link. Each node opens
 * connections from its own address, 127.0.1.N. By this address, a link recognizes the node that opens a connection. So
 * the network can block the traffic between any two nodes.
 */
export class Network {
  readonly #servers: Server[] = [];
  readonly #names = new Map<string, string>();
  readonly #connections = new Set<Connection>();
  #isBlocked: (one: string, other: string) => boolean = () => false;
  #disturbance: Disturbance = {};

  addressOf(name: string): string {
    const known = [...this.#names].find(([, other]) => other === name)?.[0];
    const address = known ?? `127.0.1.${this.#names.size + 1}`;
    this.#names.set(address, name);
    return address;
  }

  async open(to: string): Promise<Link> {
    let ready: (port: number) => void = () => {};
    const port = new Promise<number>((resolve) => {
      ready = resolve;
    });
    const server = createServer({ pauseOnConnect: true }, (client) => {
      const from = this.#names.get(client.remoteAddress ?? "") ?? CLIENT;
      client.on("error", () => {});
      port.then((number) => this.#pass({ from, to, ends: [client, connect(number, "127.0.0.1")] }));
    });
    this.#servers.push(server);
    return { port: await listen(server), leadTo: ready };
  }

  /**
   * Blocks all traffic between two nodes if `isCut` returns true for their names. Connections stay open, and blocked
   * data is delivered after `heal`, as in a network partition.
   */
  cut(isCut: (one: string, other: string) => boolean): void {
    this.#isBlocked = (one, other) => isCut(one, other) || isCut(other, one);
    for (const connection of this.#connections) this.#flow(connection);
  }

  /** Ends all faults of `cut` and `disturb`, and delivers the blocked data. */
  heal(): void {
    this.#disturbance = {};
    this.cut(() => false);
  }

  /** Applies faults to all responses that clients receive after this call. Responses to nodes stay unchanged. */
  disturb(disturbance: Disturbance): void {
    this.#disturbance = disturbance;
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const { ends } of this.#connections) for (const end of ends) end.destroy();
  }

  #pass(connection: Connection): void {
    const [client, node] = connection.ends;
    this.#connections.add(connection);
    for (const [end, other] of [[client, node] as const, [node, client] as const]) {
      end.setNoDelay();
      end.on("error", () => {});
      end.on("close", () => {
        this.#connections.delete(connection);
        other.destroy();
      });
    }
    client.on("data", (request) => void node.write(request));
    node.on("data", (answer) => this.#answer(connection, answer));
    this.#flow(connection);
  }

  #answer({ from, ends: [client, node] }: Connection, given: Buffer): void {
    const { delayMs, cutAt, rewrite } = this.#disturbance;
    const answer = from === CLIENT && rewrite ? rewrite(given) : given;
    const bytes = from === CLIENT ? cutAt?.(answer.length) : undefined;
    if (bytes !== undefined) {
      client.end(answer.subarray(0, bytes), () => client.destroy());
      node.destroy();
    } else if (from === CLIENT && delayMs) {
      // Pause reading from the node, so that later responses do not overtake this response.
      node.pause();
      setTimeout(() => {
        client.write(answer);
        node.resume();
      }, delayMs());
    } else client.write(answer);
  }

  #flow({ from, to, ends }: Connection): void {
    for (const end of ends) this.#isBlocked(from, to) ? end.pause() : end.resume();
  }
}
