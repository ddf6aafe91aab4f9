import { post } from "@user-group-service/testing/attacks/requests";
import { openTcp, openWire, type Wire } from "@user-group-service/testing/attacks/wire";
import {
  FLAG,
  FRAME,
  frame,
  hpackBlock,
  numberFrame,
  PREFACE,
  settings,
} from "@user-group-service/testing/http2-frames";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { PATHS } from "../support/talk-ports.ts";
import { describeAttacks } from "./port.ts";

const SERVED = [PATHS.health, PATHS.large, `${PATHS.talk}?a=b`, PATHS.say, PATHS.watch, PATHS.look, "/x"];
const TYPES = ["application/grpc", "application/json", "application/connect+json", "application/grpc-web+proto"];

describeAttacks("connections", [
  {
    title: "streams reset in the packet that opens them, with `expect: 100-continue`",
    bounds: { cpuMs: 100 },
    run: async ({ http1: open, server }) => {
      let count = 0;
      for (const path of SERVED) {
        for (const type of TYPES) {
          const wire = server.url.startsWith("https:") ? await openWire(server.url, "h2") : await open();
          const block = hpackBlock(post(path, type, [["expect", "100-continue"]]));
          const reset = numberFrame(FRAME.reset, 1, 8);
          await wire.send(Buffer.concat([PREFACE, settings(), frame(FRAME.headers, FLAG.endHeaders, 1, block), reset]));
          const data = frame(FRAME.data, FLAG.endStream, 3, Buffer.alloc(5));
          const second = frame(FRAME.headers, FLAG.endHeaders, 3, block);
          await wire.send(Buffer.concat([second, data, numberFrame(FRAME.reset, 3, 0), frame(FRAME.goAway, 0, 0)]));
          await pause(5);
          wire.close();
          count += 2;
        }
      }
      return { requests: count, outcome: "reset" };
    },
  },
  {
    title: "silent connections (1,000)",
    bounds: { heldKiB: 64, cpuMs: 20 },
    run: async ({ tcp }) => {
      for (let i = 0; i < 1000; i++) await tcp();
      return { requests: 1000, connections: 1000, outcome: "the server closes the connections in time" };
    },
  },
  {
    title: "connections beyond `maxConnections` (600 where 200 are allowed)",
    options: { maxConnections: 200 },
    bounds: { cpuMs: 20 },
    run: async ({ tcp }) => {
      const wires: Wire[] = [];
      for (let i = 0; i < 600; i++) wires.push(await tcp());
      const open = () => wires.filter(({ isClosed }) => !isClosed).length;
      await waitFor("the server closes the connections beyond the limit", () => open() <= 200, 8000);
      return { requests: 600, connections: 600, outcome: `${open()} left open` };
    },
  },
  {
    title: "half-closed connections (300)",
    bounds: { heldKiB: 128, cpuMs: 20 },
    run: async ({ http1: open }) => {
      const wires: Wire[] = [];
      for (let i = 0; i < 300; i++) {
        const wire = await open();
        await wire.send("POST /talk HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{");
        wire.socket.end();
        wires.push(wire);
      }
      await waitFor("the server closes the connections", () => wires.every(({ isClosed }) => isClosed), 60_000);
      return { requests: 300, connections: 300, outcome: "closed" };
    },
  },
  {
    title: "stalled TLS handshakes, and TCP without TLS (300)",
    bounds: { heldKiB: 128, cpuMs: 20 },
    run: async ({ tcp }) => {
      for (let i = 0; i < 300; i++) {
        const wire = await tcp();
        // Send only the beginning of a TLS record that declares 512 bytes. The rest never arrives.
        await wire.send(Buffer.from(`160301020001${i % 2 ? "0001fc0303" : "ffffffffff"}`, "hex"));
      }
      return { requests: 300, connections: 300, outcome: "refused" };
    },
  },
  {
    title: "connections closed as soon as they open (500)",
    bounds: { cpuMs: 40, heldKiB: 64 },
    run: async ({ server }) => {
      for (let i = 0; i < 500; i++) {
        const wire = await openTcp(server.url);
        if (i % 2) wire.socket.resetAndDestroy();
        else wire.close();
      }
      return { requests: 500, connections: 500, outcome: "closed" };
    },
  },
  {
    title: "header fields of 24 KiB",
    bounds: { cpuMs: 10 },
    run: async ({ server }) => {
      for (let i = 0; i < 20; i++) {
        const wire = await openWire(server.url, "http/1.1");
        await wire.send(`GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: ${"x".repeat(24 * 1024)}\r\n\r\n`);
        await waitFor("the server answers", () => wire.isClosed || wire.received().includes("\r\n\r\n"));
        const status = wire.received().toString("latin1").split(" ")[1];
        wire.close();
        if (status !== "200") throw new Error(`the server answers 24 KiB of header fields with ${status}`);
      }
      return { requests: 20, outcome: "served" };
    },
  },
  {
    title: "endless header fields (32 MiB)",
    bounds: { cpuMs: 60, heldKiB: 1024 },
    run: async ({ http1: open }) => {
      for (let i = 0; i < 32; i++) {
        const wire = await open();
        await wire.send("GET /healthz HTTP/1.1\r\nHost: a\r\n");
        for (let sent = 0; sent < 64; sent++) {
          if (!(await wire.send("X-Many: a\r\nY: 1\r\n".repeat(1000)))) break;
        }
      }
      return { requests: 32, connections: 32, outcome: "431" };
    },
  },
  {
    title: "pipelined requests with unread answers (HTTP/1.1)",
    // Up to 32 answers of about 150 KB wait behind the current answer. If more answers could wait, they would take
    // hundreds of MiB.
    bounds: { heldKiB: 8192 },
    run: async ({ http1: open }) => {
      const request = `GET ${PATHS.large} HTTP/1.1\r\nHost: a\r\n\r\n`;
      const wires: Wire[] = [];
      for (let i = 0; i < 20; i++) {
        const wire = await open();
        wire.socket.pause();
        wire.push(request.repeat(2000));
        wires.push(wire);
      }
      await pause(3000);
      return { requests: 40_000, connections: 20, outcome: "left unread" };
    },
  },
]);
