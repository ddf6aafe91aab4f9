import { once } from "node:events";
import { connect, createServer, type Http2Session, type ServerHttp2Session } from "node:http2";
import { connect as connectSocket, type Socket } from "node:net";
import { HELLO } from "@user-group-service/testing/http2-frames";
import { listen } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../limits.ts";
import { pauseSession, peerOfSession, superviseSession } from "./http2-sessions.ts";
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

it("returns the peer address of an ended session", async () => {
  const server = createServer();
  const client = connect(`http://127.0.0.1:${await listen(server)}`);
  const [[socket], [session]] = (await Promise.all([once(server, "connection"), once(server, "session")])) as [
    [Socket],
    [ServerHttp2Session],
  ];
  const sessions = new Set<Http2Session>();
  superviseSession(session, socket, DEFAULT_LIMITS, sessions);
  expect(sessions.size).toBe(1);
  client.destroy();
  await Promise.all([once(session, "close"), once(socket, "close")]);
  expect(sessions.size).toBe(0);
  expect(() => session.socket.remoteAddress).toThrow();
  expect(peerOfSession(session)).toBe("127.0.0.1");
  expect(peerOfSession(undefined)).toBe("");
  server.close();
});

it("ends a session that does not answer a PING, but not a paused session", async () => {
  const limits = { ...DEFAULT_LIMITS, deadSessionCheckMs: 10 };
  const server = createServer();
  const port = await listen(server);
  const open = async <Client>(connectClient: () => Client) => {
    const arrived = Promise.all([once(server, "connection"), once(server, "session")]);
    const client = connectClient();
    const [[socket], [session]] = (await arrived) as [[Socket], [ServerHttp2Session]];
    superviseSession(session, socket, limits, new Set());
    return { client, socket, session };
  };
  const paused = await open(() => connect(`http://127.0.0.1:${port}`));
  await once(paused.client, "remoteSettings");
  const pause = pauseSession(paused.session, "flood");
  // This client answers no PING, and its session begins after the paused session. If the server treated both sessions
  // alike, it would end the paused session first.
  const silent = await open(() => connectSocket(port, "127.0.0.1"));
  silent.client.write(HELLO);
  silent.client.resume();
  await once(silent.socket, "close");
  expect(paused.session.destroyed).toBe(false);
  pause?.resume();
  await new Promise((answered) => paused.client.ping(answered));
  paused.client.destroy();
  server.close();
});
