import { asking } from "@user-group-service/testing/attacks/repeated";
import { get, post } from "@user-group-service/testing/attacks/requests";
import { envelope } from "@user-group-service/testing/http";
import { PATHS } from "../support/talk-ports.ts";
import { describeAttacks } from "./port.ts";

describeAttacks("expensive headers", [
  asking(
    "calls without authorization",
    500,
    5,
    () => post(PATHS.say, "application/grpc"),
    envelope(Buffer.from("\n\x01a")),
  ),
  asking("responses of 150 KB before compression", 200, 50, () => get(PATHS.large, [["accept-encoding", "br, gzip"]])),
  asking("long lists in `Accept-Encoding`", 100, 10, () =>
    post(PATHS.say, "application/json", [["accept-encoding", "gzip;q=0,".repeat(1600)]]),
  ),
  asking("a content type with thousands of parameters", 100, 10, () =>
    post(PATHS.say, `application/json${"; ".repeat(7000)}`),
  ),
  asking("a long `grpc-timeout`", 100, 10, () =>
    post(PATHS.say, "application/grpc", [["grpc-timeout", "9".repeat(14_000)]]),
  ),
]);
