import { ask, asking, crowd, unread } from "@user-group-service/testing/attacks/repeated";
import { authorization, get, head, post, protoField } from "@user-group-service/testing/attacks/requests";
import { envelope, overHttp2 } from "@user-group-service/testing/http";
import { waitFor } from "@user-group-service/testing/wait";
import { PATHS } from "../support/subject.ts";
import { describeAttacks } from "./service.ts";

/** A `ServerReflectionRequest` for the proto file that defines UserGroupService. */
const REFLECTION = envelope(protoField(4, "usergroup.v1.UserGroupService"));

describeAttacks("expensive responses", [
  asking(
    "reflection",
    100,
    16,
    () => post(PATHS.reflection, "application/grpc", [["grpc-accept-encoding", "br, gzip"]]),
    REFLECTION,
  ),
  asking("metrics", 200, 5, () => get("/metrics", [["accept-encoding", "br, gzip"]])),
  asking("`readyz`", 300, 5, () => get("/readyz")),
  asking("calls without a token", 500, 5, () => post(PATHS.get, "application/grpc"), envelope(protoField(1, "a"))),
  asking("long lists in `If-Match`", 100, 10, () => [
    [":method", "PUT"],
    [":path", "/api/user"],
    ["if-match", '"a",'.repeat(4000)],
  ]),
  asking("a query of 12 KB of nested JSON", 100, 20, () => get(`/api/user?properties=${"%5B".repeat(4000)}`)),
  asking("a query of many fields", 100, 20, () => get(`/api/user?${"mapping=%7B%7D&".repeat(900)}`)),
  {
    title: "1,000 violations over gRPC, by a token holder",
    bounds: { cpuMs: 400 },
    run: (target) =>
      overHttp2(target.server.url, async (session) => {
        const fields = post(PATHS.update, "application/grpc", [authorization(target), ["te", "trailers"]]);
        const entries = Array.from({ length: 1000 }, (_, i) =>
          protoField(3, Buffer.concat([protoField(1, `${i}-`.padEnd(300, "k")), protoField(2, "v".repeat(600))])),
        );
        const body = envelope(Buffer.concat([protoField(1, "a"), ...entries]));
        for (let i = 0; i < 5; i++) {
          const { headers, trailers } = await ask(session, fields, body);
          const all = { ...headers, ...trailers };
          if (all["grpc-status"] !== "3") throw new Error(`the grpc-status is ${all["grpc-status"]}, not 3`);
          const bytes = JSON.stringify(all).length;
          if (bytes > 16_000) throw new Error(`the trailers have ${bytes} bytes`);
        }
        return { requests: 5, outcome: "3 INVALID_ARGUMENT" };
      }),
  },
  {
    title: "unknown paths, methods and services (6,000)",
    bounds: { cpuMs: 8, heldKiB: 65_536 },
    run: (target) =>
      overHttp2(target.server.url, async (session) => {
        const metricsBytes = async () => (await ask(session, get("/metrics"), Buffer.alloc(0))).body.byteLength;
        const askStrange = async (i: number) => {
          const strange = [
            post(`/a.b${i}.C/D`, "application/grpc"),
            post(`${PATHS.get}${i}`, "application/json"),
            get(`/x/${i}`),
          ];
          await Promise.all(strange.map((fields) => ask(session, fields, Buffer.alloc(0)).catch(() => {})));
        };
        // The first calls create the series for unknown names: one series per protocol, 5 KB in total.
        for (let i = 0; i < 20; i++) await askStrange(-i);
        const before = await metricsBytes();
        for (let i = 0; i < 2000; i++) await askStrange(i);
        // From now on, only the values of these series may get longer. If the metrics had a series for each name, they
        // would grow by half a megabyte.
        const grown = (await metricsBytes()) - before;
        if (grown > 4096) throw new Error(`the metrics grew by ${grown} bytes`);
        return { requests: 6000, connections: 1, outcome: "counted in one series" };
      }),
  },
  {
    title: "log lines for refused calls (500)",
    bounds: { cpuMs: 20 },
    run: async (target) => {
      const before = target.server.output().length;
      for (let i = 0; i < 500; i++) {
        const wire = await target.http1();
        const fields = {
          "X-Request-Id": "i".repeat(8000),
          "User-Agent": "u".repeat(8000),
          Authorization: "Token ugk_x",
        };
        await wire.send(head("GET", `/api/user?user_group_id=${"a".repeat(8000)}`, fields));
        await waitFor("an answer", () => wire.isClosed || wire.receivedBytes > 0);
        wire.close();
      }
      const bytes = (target.server.output().length - before) / 500;
      if (bytes > 2048) throw new Error(`${Math.round(bytes)} bytes of log per call`);
      return { requests: 500, outcome: "short" };
    },
  },
]);

describeAttacks("streams of the service", [
  {
    title: "reflection streams left open (100 on each of 40 connections)",
    bounds: { heldKiB: 3072, cpuMs: 20 },
    run: (target) =>
      crowd(
        40,
        () => target.http2(),
        (http2) => http2.request(post(PATHS.reflection, "application/grpc"), { isEnd: false }),
      ),
  },
  {
    title: "unread reflection responses (100 on each of 20 connections)",
    bounds: { heldKiB: 5120 },
    run: (target) =>
      unread(target, async (http2) => {
        const stream = await http2.request(post(PATHS.reflection, "application/grpc"), { isEnd: false });
        await http2.data(stream, REFLECTION, { isEnd: true, patienceMs: 1000 });
      }),
  },
]);
