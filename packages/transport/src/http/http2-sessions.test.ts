import { once } from "node:events";
import { connect, createServer, type Http2Session, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../limits.ts";
import { peerOfSession, superviseSession } from "./http2-sessions.ts";
import { plainAddress } from "./server-request.ts";

it.each([
  ["127.0.0.1", "127.0.0.1"],
  ["::ffff:203.0.113.7", "203.0.113.7"],
  ["::FFFF:203.0.113.7", "203.0.113.7"],
  ["2001:db8::1", "2001:db8::1"],
  ["::ffff:0:1", "::ffff:0:1"],
  ["::1", "::1"],
  [undefined, ""],
])("%s is written as %s", (address, plain) => {
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
