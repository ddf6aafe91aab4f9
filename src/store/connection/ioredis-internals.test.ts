import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import { listen, waitFor } from "@user-group-service/testing/wait";
import { AbstractConnector, Command, Redis, type RedisOptions } from "ioredis";
import { afterEach, describe, expect, it } from "vitest";

/** The answers to some commands. The server answers OK to each command that is not in this list. */
const ANSWERS: Readonly<Record<string, string>> = { info: bulk("role:master\r\nloading:0\r\n"), get: bulk("é") };

const opened: (() => void)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

// If a test of this group fails, ioredis has changed a private part. Check the file that the title names.
describe("the private parts of ioredis:", () => {
  it("`redis.commandQueue` has the commands without an answer (sockets.ts, cluster.ts)", async () => {
    const server = await fakeRedis();
    const redis = await connected(server);
    server.isSilent = true;
    const requested = [redis.get("a"), redis.get("b")];
    expect(redis.commandQueue.length).toBe(2);
    server.speak();
    await Promise.all(requested);
    expect(redis.commandQueue.length).toBe(0);
  });

  it("`redis.stream` is the socket after the event `connect`, and its `write` receives each command in one call (sockets.ts)", async () => {
    const server = await fakeRedis();
    const written: unknown[][] = [];
    const redis = opens(server);
    redis.on("connect", () => {
      const write = redis.stream.write.bind(redis.stream) as (...args: unknown[]) => boolean;
      redis.stream.write = (...args: unknown[]) => {
        written.push(args);
        return write(...args);
      };
    });
    await once(redis, "ready");
    written.length = 0;
    await redis.set("a", "b");
    await redis.set("a", Buffer.from("b"));
    expect(written[0]).toEqual(["*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\n"]);
    expect(written.flat().map((data) => typeof data)).toEqual(["string", "object"]);
  });

  it("`disconnect` calls `end` of `redis.stream` (sockets.ts)", async () => {
    const redis = await connected(await fakeRedis());
    const { stream } = redis;
    let isCalled = false;
    stream.end = () => {
      isCalled = true;
      return stream.destroy();
    };
    redis.disconnect();
    expect(isCalled).toBe(true);
  });

  it("`sendCommand` sends a `Command` unchanged, and decodes its answer (connection.ts)", async () => {
    const server = await fakeRedis();
    const redis = await connected(server);
    const command = new Command("get", ["a", "1"], { replyEncoding: "utf8" });
    expect(await redis.sendCommand(command)).toBe("é");
    expect(server.commands.at(-1)).toEqual(["get", "a", "1"]);
  });

  it("`options.password` is read for each connection (options.ts)", async () => {
    const server = await fakeRedis();
    let password = "first";
    const redis = opens(server, { password });
    Object.defineProperty(redis.options, "password", { get: () => password, enumerable: true });
    await once(redis, "ready");
    password = "second";
    redis.disconnect(true);
    await once(redis, "ready");
    expect(server.commands.filter(([name]) => name === "auth")).toEqual([
      ["auth", "first"],
      ["auth", "second"],
    ]);
  });

  it.each([
    ["auth", { password: "wrong" }],
    ["select", { db: 99 }],
  ])("`error.command.name` is the refused command: %s (errors.ts)", async (name, options) => {
    const redis = opens(await fakeRedis({ [name]: "-ERR no\r\n" }), { ...options, retryStrategy: () => null });
    const [error] = (await once(redis, "error")) as [Error];
    expect(error).toMatchObject({ name: "ReplyError", message: "ERR no", command: { name } });
  });

  it("an error that begins with `Stream isn't writeable` means that the command was not written (errors.ts)", async () => {
    const server = await fakeRedis();
    const redis = await connected(server);
    const sent = server.commands.length;
    redis.stream.end();
    await expect(redis.get("a")).rejects.toThrow(/^Stream isn't writeable/);
    await once(redis, "close");
    await expect(redis.get("b")).rejects.toThrow(/^Stream isn't writeable/);
    expect(server.commands.length).toBe(sent);
  });
});

// If a test of this group fails, check `connectorOptions` in options.ts.
describe("the connectors of ioredis:", () => {
  it("`disconnect` of `AbstractConnector` clears `connecting`, and destroys `stream` if it stays open", async () => {
    const server = await fakeRedis();
    let connector: Connector | undefined;
    const redis = await connected(server, { Connector: connectorOf(server, (made) => (connector = made)) });
    expect(connector?.isConnecting).toBe(true);
    // `end` has no effect, so the socket stays open.
    redis.stream.end = () => redis.stream;
    redis.disconnect();
    expect(connector?.isConnecting).toBe(false);
    await waitFor("it is destroyed", () => redis.stream.destroyed);
  });

  it("`check` of a connector receives the answer of INFO, and a result of false closes the connection", async () => {
    const server = await fakeRedis();
    const requested: unknown[] = [];
    const check = (info: unknown) => requested.push(info) > 1;
    await connected(server, { Connector: connectorOf(server, () => {}, check) });
    expect(requested).toMatchObject([{ role: "master" }, { role: "master" }]);
    expect(server.connections).toBe(2);
  });

  it("`firstError` of a connector is the error of a stream that closes before ioredis receives the stream", async () => {
    const server = await fakeRedis();
    class Failing extends Connector {
      override async connect() {
        const stream = await super.connect();
        this.firstError = new Error("lost at once");
        await once(stream.destroy(), "close");
        return stream;
      }
    }
    const Broken = connectorOf(server, () => {}, undefined, Failing);
    const redis = opens(server, { Connector: Broken, retryStrategy: () => null });
    expect(await once(redis, "error")).toMatchObject([{ message: "lost at once" }]);
  });
});

class Connector extends AbstractConnector {
  readonly #port: number;

  constructor(port: number) {
    super(10);
    this.#port = port;
  }

  async connect() {
    this.connecting = true;
    this.stream = createConnection({ port: this.#port, host: "127.0.0.1" });
    return this.stream;
  }

  get isConnecting(): boolean {
    return this.connecting;
  }
}

function connectorOf(
  { port }: FakeRedis,
  made: (connector: Connector) => void,
  check = (_info: unknown) => true,
  Kind: typeof Connector = Connector,
): NonNullable<RedisOptions["Connector"]> {
  return class extends Kind {
    constructor() {
      super(port);
      made(this);
    }

    override check(info: unknown): boolean {
      return check(info);
    }
  };
}

interface FakeRedis {
  readonly port: number;
  /** The received commands, except CLIENT. */
  readonly commands: string[][];
  connections: number;
  isSilent: boolean;
  speak(): void;
}

async function fakeRedis(answers: Readonly<Record<string, string>> = {}): Promise<FakeRedis> {
  const all = { ...ANSWERS, ...answers };
  let kept: (() => void)[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    fake.connections++;
    socket.on("error", () => {});
    let text = "";
    socket.on("data", (chunk) => {
      const { commands, rest } = parse(text + chunk);
      text = rest;
      for (const command of commands) {
        const [name = ""] = command;
        if (name !== "client") fake.commands.push(command);
        const answer = () => void socket.write(all[name] ?? "+OK\r\n");
        if (fake.isSilent) kept.push(answer);
        else answer();
      }
    });
  });
  const port = await listen(server);
  const fake: FakeRedis = {
    ...{ port, commands: [], connections: 0, isSilent: false },
    speak() {
      fake.isSilent = false;
      for (const answer of kept) answer();
      kept = [];
    },
  };
  opened.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return fake;
}

function parse(text: string): { readonly commands: string[][]; readonly rest: string } {
  const commands: string[][] = [];
  let lines = text.split("\r\n");
  for (;;) {
    const count = Number(lines[0]?.slice(1));
    if (lines.length <= 1 + 2 * count) return { commands, rest: lines.join("\r\n") };
    commands.push(lines.slice(1, 1 + 2 * count).filter((_, i) => i % 2 === 1));
    lines = lines.slice(1 + 2 * count);
  }
}

function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

function opens({ port }: FakeRedis, options: RedisOptions = {}): Redis {
  const redis = new Redis({
    ...{ port, host: "127.0.0.1", enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 5 },
    ...options,
  });
  redis.on("error", () => {});
  opened.push(() => redis.disconnect());
  return redis;
}

async function connected(server: FakeRedis, options?: RedisOptions): Promise<Redis> {
  const redis = opens(server, options);
  await once(redis, "ready");
  return redis;
}
