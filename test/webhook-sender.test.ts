import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer, type Server, type Socket } from "node:net";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { newProcess } from "@user-group-service/testing/opened";
import { startProcess } from "@user-group-service/testing/process";
import { denoRun, RUNTIMES } from "@user-group-service/testing/runtime";
import { listen, waitFor } from "@user-group-service/testing/wait";
import { afterEach, describe, expect, it } from "vitest";
import { type Network, parseNetwork } from "../src/domain/client-address.ts";
import { Sender, type SenderOptions } from "../src/webhooks/sender.ts";
import type { RemoteSenderOptions } from "./support/sender-on-deno.ts";

const LOOPBACK = [parseNetwork("127.0.0.1") as Network];

const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

async function endpoint(server: Server) {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on("connection", (socket: Socket) => {
    connections++;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  const port = await listen(server);
  opened.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://hooks.example:${port}/path`, port, sockets, connections: () => connections };
}

const httpEndpoint = (listener: RequestListener) => endpoint(createServer(listener));

const rawEndpoint = (answer: (socket: Socket) => void) =>
  endpoint(createTcpServer((socket) => void socket.once("data", () => answer(socket))));

function nodeSender(options: Partial<SenderOptions> = {}): Sender {
  const sender = new Sender({ allowed: LOOPBACK, resolve: async () => ["127.0.0.1"], ...options });
  opened.push(() => sender.close());
  return sender;
}

const messageTo = (url: string) => ({ url, headers: { "webhook-id": "msg_1" }, body: '{"type":"x"}' });

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function senderOnDeno(options: RemoteSenderOptions) {
  const program = [...denoRun(["-P"]), "test/support/sender-on-deno.ts", JSON.stringify(options)];
  const deno = newProcess(startProcess(program));
  let sent = 0;
  return {
    async send(message: ReturnType<typeof messageTo>) {
      deno.type(`${JSON.stringify(message)}\n`);
      const lines = () => deno.output().match(/^\{.*(?=\n)/gm) ?? [];
      const n = sent++;
      const line = await waitFor("Deno has a result", () => {
        if (!deno.isRunning()) throw new Error(deno.output());
        return lines()[n];
      });
      return { status: undefined, ...JSON.parse(line) } as Awaited<ReturnType<Sender["send"]>>;
    },
  };
}

describe.each(RUNTIMES)("a sender on %s", (runtime) => {
  /**
   * Creates a sender. Each lookup of a host name returns the next element of `lookups`. After the last element, all
   * lookups return the last element. Default: 127.0.0.1.
   */
  const newSender = ({
    lookups = [["127.0.0.1"]],
    allowed = ["127.0.0.1"],
    ...options
  }: Partial<RemoteSenderOptions> = {}) => {
    if (runtime === "deno") return senderOnDeno({ lookups, allowed, ...options });
    const left = [...lookups];
    const resolve = async () => (left.length > 1 ? left.shift() : left[0]) ?? [];
    return nodeSender({ resolve, allowed: allowed.map((each) => parseNetwork(each) as Network), ...options });
  };

  it("sends a message by POST, and keeps the connection for the next message", async () => {
    const received: unknown[] = [];
    const { url, port, connections } = await httpEndpoint(async (request, response) => {
      const { method, headers } = request;
      received.push([method, request.url, headers.host, headers["webhook-id"], await bodyOf(request)]);
      response.writeHead(202).end("thanks");
    });
    const sender = newSender();
    for (let i = 0; i < 3; i++) {
      expect(await sender.send(messageTo(url))).toMatchObject({ outcome: "delivered", status: 202 });
    }
    expect(received).toHaveLength(3);
    expect(received[0]).toEqual(["POST", "/path", `hooks.example:${port}`, "msg_1", '{"type":"x"}']);
    expect(connections()).toBe(1);
  });

  it("sends on a new connection if the endpoint has closed the idle connection", async () => {
    const { url, sockets, connections } = await httpEndpoint((request, response) => {
      request.resume();
      response.end();
    });
    const sender = newSender();
    for (let i = 1; i <= 3; i++) {
      expect((await sender.send(messageTo(url))).outcome).toBe("delivered");
      expect(connections()).toBe(i);
      for (const socket of sockets) socket.resetAndDestroy();
    }
  });

  it.each([
    [400, "status"],
    [404, "status"],
    [500, "status"],
    [503, "status"],
    [301, "redirect"],
    [307, "redirect"],
    [200, "delivered"],
    [299, "delivered"],
  ] as const)("reports the status %d as %s", async (status, outcome) => {
    const { url } = await httpEndpoint((_, response) => response.writeHead(status).end());
    expect(await newSender().send(messageTo(url))).toMatchObject({ outcome, status });
  });

  it("follows no redirect", async () => {
    const other = await httpEndpoint((_, response) => response.end());
    const { url } = await httpEndpoint((_, response) => response.writeHead(308, { location: other.url }).end());
    expect(await newSender().send(messageTo(url))).toMatchObject({ outcome: "redirect", status: 308 });
    expect(other.connections()).toBe(0);
  });

  it("stops waiting if an endpoint never answers, and closes the connection", async () => {
    const { url, sockets } = await rawEndpoint(() => {});
    const sent = newSender({ timeoutMs: 150 }).send(messageTo(url));
    expect(await sent).toMatchObject({ outcome: "timeout", status: undefined });
    await waitFor("the connection is closed", () => sockets.size === 0);
  });

  it("closes the connection of an endless answer after a few KiB", async () => {
    let written = 0;
    const { url, sockets } = await httpEndpoint((_, response) => {
      response.writeHead(200);
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384))) written += 16_384;
      };
      response.on("drain", write);
      write();
    });
    expect((await newSender().send(messageTo(url))).outcome).toBe("delivered");
    await waitFor("the connection is closed", () => sockets.size === 0);
    // If the sender does not read, the endpoint can write only until the buffers of the sockets are full.
    expect(written).toBeLessThan(16 * 1024 * 1024);
  });

  it("closes the connection of an answer that does not end, so that the answer delays no later message", async () => {
    const { url, sockets } = await httpEndpoint((_, response) => void response.writeHead(200).write("x"));
    const sender = newSender();
    expect((await sender.send(messageTo(url))).outcome).toBe("delivered");
    expect((await sender.send(messageTo(url))).outcome).toBe("delivered");
    await waitFor("the connections are closed", () => sockets.size === 0);
  });

  it.each([
    [
      "endless headers",
      (socket: Socket) => {
        socket.write("HTTP/1.1 200 OK\r\n");
        const write = () => {
          while (!socket.destroyed && socket.write(`x-a: ${"a".repeat(1000)}\r\n`));
        };
        socket.on("drain", write);
        write();
      },
    ],
    [
      "only informational responses",
      (socket: Socket) => void socket.write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20)),
    ],
    ["bytes that are not HTTP", (socket: Socket) => socket.end("SSH-2.0-OpenSSH_9.9\r\n")],
    ["the end of the connection", (socket: Socket) => socket.end()],
    ["a reset", (socket: Socket) => socket.resetAndDestroy()],
  ])("reports %s instead of an answer as a failed connection", async (_, answer) => {
    const { url, sockets } = await rawEndpoint(answer);
    const sent = newSender({ timeoutMs: 5000 }).send(messageTo(url));
    expect(await sent).toMatchObject({ outcome: "connection", status: undefined });
    await waitFor("the connection is closed", () => sockets.size === 0);
  });

  it("reports a switch to another protocol as a failed status, and closes the connection", async () => {
    const { url, sockets } = await rawEndpoint((socket) =>
      socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
    );
    expect(await newSender().send(messageTo(url))).toMatchObject({ outcome: "status", status: 101 });
    await waitFor("the connection is closed", () => sockets.size === 0);
  });

  it("reports the status of an answer whose body is incomplete", async () => {
    const { url } = await rawEndpoint((socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc"));
    const sender = newSender();
    expect(await sender.send(messageTo(url))).toMatchObject({ outcome: "delivered", status: 200 });
    expect(await sender.send(messageTo(url))).toMatchObject({ outcome: "delivered", status: 200 });
  });

  it("checks the addresses after each lookup, so a changed DNS record cannot lead to a forbidden address", async () => {
    const { url, connections } = await httpEndpoint((_, response) =>
      response.writeHead(204, { connection: "close" }).end(),
    );
    const sender = newSender({ lookups: [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.2"]] });
    const outcomes = [];
    for (let i = 0; i < 3; i++) outcomes.push((await sender.send(messageTo(url))).outcome);
    expect(outcomes).toEqual(["delivered", "address", "address"]);
    expect(connections()).toBe(1);
  });

  it("connects to no address of a name if one of the name's addresses is not allowed", async () => {
    const { url, connections } = await httpEndpoint((_, response) => response.end());
    const sender = newSender({ lookups: [["127.0.0.1", "10.0.0.1"]] });
    expect((await sender.send(messageTo(url))).outcome).toBe("address");
    expect(connections()).toBe(0);
  });

  it("rejects forbidden addresses in URLs", async () => {
    const { port, connections } = await httpEndpoint((_, response) => response.end());
    const sender = newSender({ allowed: [] });
    for (const host of ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433", "[::1]", "0.0.0.0"]) {
      expect((await sender.send(messageTo(`http://${host}:${port}/`))).outcome, host).toBe("address");
    }
    expect(connections()).toBe(0);
  });

  it("reports a refused connection, and an untrusted certificate", async () => {
    const { url } = await endpoint(createTcpServer());
    for (const close of opened.splice(0)) close();
    expect((await newSender().send(messageTo(url))).outcome).toBe("connection");
    const made = makeCertificates();
    opened.push(() => removeCertificates(made));
    let requests = 0;
    const { port } = await endpoint(createTlsServer(made.server, () => requests++));
    expect((await newSender().send(messageTo(`https://hooks.example:${port}/`))).outcome).toBe("tls");
    expect(requests).toBe(0);
  });
});

describe("a sender", () => {
  it("stops waiting for a name that never resolves", async () => {
    const sender = nodeSender({ timeoutMs: 50, resolve: () => new Promise(() => {}) });
    expect((await sender.send(messageTo("https://hooks.example/"))).outcome).toBe("timeout");
  });

  it("reaches localhost without DNS if the loopback addresses are allowed", async () => {
    const { port } = await httpEndpoint((_, response) => response.end());
    const sender = new Sender({ allowed: LOOPBACK, resolve: () => expect.fail("looked up") });
    opened.push(() => sender.close());
    expect((await sender.send(messageTo(`http://localhost:${port}/`))).outcome).toBe("delivered");
  });

  it("reports a name without addresses", async () => {
    for (const resolve of [async () => [], () => Promise.reject(new Error("SERVFAIL"))]) {
      expect((await nodeSender({ resolve }).send(messageTo("https://hooks.example/"))).outcome).toBe("name");
    }
  });

  it("sends nothing after the timeout, even if the process was stopped before the timeout", async () => {
    let requests = 0;
    const { url } = await httpEndpoint((_, response) => {
      requests++;
      response.end();
    });
    let stopMs = 0;
    const resolve = async () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stopMs);
      return ["127.0.0.1"];
    };
    const sender = nodeSender({ resolve, timeoutMs: 2000 });
    expect((await sender.send(messageTo(url))).outcome).toBe("delivered");
    stopMs = 2100;
    expect((await sender.send(messageTo(url))).outcome).toBe("timeout");
    expect((await nodeSender().send(messageTo(url))).outcome).toBe("delivered");
    expect(requests).toBe(2);
  });

  it("rejects if the caller aborts", async () => {
    const { url, sockets } = await rawEndpoint(() => aborted.abort(new Error("closing")));
    const aborted = new AbortController();
    await expect(nodeSender().send(messageTo(url), aborted.signal)).rejects.toThrow("closing");
    await waitFor("the connection is closed", () => sockets.size === 0);
  });
});
