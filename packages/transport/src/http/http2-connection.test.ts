import { once } from "node:events";
import { connect } from "node:http2";
import { connect as connectSocket, createServer, type Socket } from "node:net";
import { HELLO } from "@user-group-service/testing/http2-frames";
import { listen } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { DEFAULT_LIMITS, type Limits } from "../limits.ts";
import { Http2Connection } from "./http2-connection.ts";
import { plainAddress } from "./server-request.ts";

it.each([
  ["127.0.0.1", "127.0.0.1"],
  ["::ffff:203.0.113.7", "203.0.113.7"],
  ["::FFFF:203.0.113.7", "203.0.113.7"],
  ["2001:db8::1", "2001:db8::1"],
  ["::ffff:0:1", "::ffff:0:1"],
  ["::1", "::1"],
  [undefined, ""],
])("formats the peer address %s as %s", (address, plain) => {
  expect(plainAddress(address)).toBe(plain);
});

/** Serves HTTP/2 on a new port. `open` connects a client and returns the client with its connection. */
async function opener(limits: Limits) {
  const server = createServer();
  const port = await listen(server);
  const all = new Set<Http2Connection>();
  const open = async <Client>(connectClient: (port: number) => Client) => {
    const accepted = once(server, "connection");
    const client = connectClient(port);
    const [socket] = (await accepted) as [Socket];
    return { client, socket, connection: new Http2Connection(socket, limits, all) };
  };
  return { server, all, open };
}

const connectClient = (port: number) => connect(`http://127.0.0.1:${port}`);

it("returns the peer address of an ended session", async () => {
  const { server, all, open } = await opener(DEFAULT_LIMITS);
  const { client, socket, connection } = await open(connectClient);
  const { session } = connection;
  expect(all.size).toBe(1);
  client.destroy();
  await Promise.all([once(session, "close"), once(socket, "close")]);
  expect(all.size).toBe(0);
  expect(() => session.socket.remoteAddress).toThrow();
  expect(connection.peerAddress).toBe("127.0.0.1");
  server.close();
});

it("ends a session that does not answer a PING, but not a paused session", async () => {
  const { server, open } = await opener({ ...DEFAULT_LIMITS, deadSessionCheckMs: 10 });
  const paused = await open(connectClient);
  await once(paused.client, "remoteSettings");
  const [pause] = paused.connection.pause("flood", true);
  // This client answers no PING, and its session begins after the paused session. If the server did not spare paused
  // sessions, it would end the paused session first.
  const silent = await open((port) => connectSocket(port, "127.0.0.1"));
  silent.client.write(HELLO);
  silent.client.resume();
  await once(silent.socket, "close");
  expect(paused.connection.session.destroyed).toBe(false);
  pause?.resume();
  await new Promise((answered) => paused.client.ping(answered));
  paused.client.destroy();
  server.close();
});

it("pauses a connection and all connections that were paused earlier for the same caller", async () => {
  const { server, open } = await opener(DEFAULT_LIMITS);
  const first = await open(connectClient);
  const second = await open(connectClient);
  const other = await open(connectClient);
  for (const paused of first.connection.pause("flood", false)) paused.resume();
  for (const paused of other.connection.pause("other", false)) paused.resume();
  expect(second.connection.pause("flood", true)).toHaveLength(2);
  expect(second.connection.pause("flood", true)).toHaveLength(0);
  for (const { client } of [first, second, other]) client.destroy();
  server.close();
});
