import { connect, createServer, type Server, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";

/** Who connects when it is none of those that have an address of their own. */
export const CLIENT = "client";

/** An address by which all others reach a node. */
export interface Link {
  readonly port: number;
  /** Sets the port that it leads to; until then connections to it wait. */
  leadTo(port: number): void;
}

/** What is done to the answers that clients get. */
export interface Disturbance {
  /** By how many milliseconds an answer is late. */
  readonly delayMs?: () => number;
  /** After how many of so many bytes of an answer the connection breaks; undefined: it does not. */
  readonly cutAt?: (bytes: number) => number | undefined;
  /** What a client gets in place of an answer. */
  readonly rewrite?: (answer: Buffer) => Buffer;
}

interface Connection {
  readonly from: string;
  readonly to: string;
  readonly ends: readonly [Socket, Socket];
}

/**
 * A network of proxies between nodes on one machine. All reach a node by a link. A node connects to others from an
 * address of its own, 127.0.1.N, by which the network knows it; so what passes can be decided for each pair.
 */
export class Network {
  readonly #servers: Server[] = [];
  readonly #names = new Map<string, string>();
  readonly #connections = new Set<Connection>();
  #isBlocked: (one: string, other: string) => boolean = () => false;
  #disturbance: Disturbance = {};

  /** The address that a node has to connect to others from. */
  addressOf(name: string): string {
    const known = [...this.#names].find(([, other]) => other === name)?.[0];
    const address = known ?? `127.0.1.${this.#names.size + 1}`;
    this.#names.set(address, name);
    return address;
  }

  /** Opens a link to a node. */
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

  /** From now on nothing passes between some: what they send each other is kept back, as by a network that is cut. */
  cut(isCut: (one: string, other: string) => boolean): void {
    this.#isBlocked = (one, other) => isCut(one, other) || isCut(other, one);
    for (const connection of this.#connections) this.#flow(connection);
  }

  /** Lets pass everything again, and what was kept back first. */
  heal(): void {
    this.#disturbance = {};
    this.cut(() => false);
  }

  /** From now on this is done to what clients are answered. */
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
      // What comes behind it waits, too.
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
