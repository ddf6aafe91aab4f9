import { connect, createServer, type Server, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";

/** Name of every client that does not connect from the address of a node. */
export const CLIENT = "client";

/** A proxy in front of a node. All other nodes and all clients connect to this proxy. */
export interface Link {
  readonly port: number;
  /** Sets the port of the node. Until this call, connections wait. */
  leadTo(port: number): void;
}

export interface Disturbance {
  readonly delayMs?: () => number;
  /**
   * Returns the number of bytes of a response after which the connection breaks. If undefined, the connection does not
   * break.
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
 * A network of proxies between nodes on one machine. Other nodes reach a node only through its link. Each node connects
 * from its own address, 127.0.1.N, by which the network identifies the node. So the network can block each pair of
 * nodes.
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

  /** Blocks all traffic between the two nodes of each pair that `isCut` selects. Data waits, as in a partition. */
  cut(isCut: (one: string, other: string) => boolean): void {
    this.#isBlocked = (one, other) => isCut(one, other) || isCut(other, one);
    for (const connection of this.#connections) this.#flow(connection);
  }

  /** Ends all faults, and delivers the data that waits. */
  heal(): void {
    this.#disturbance = {};
    this.cut(() => false);
  }

  /** Applies faults to all further responses to clients. */
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
      // Later data waits until this response is sent.
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
