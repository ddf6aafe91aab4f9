import { createServer } from "node:http2";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { GetUserGroupRequestSchema, GetUserGroupResponseSchema } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { responseMessage } from "./messages.ts";
import { announce, openWork } from "./work.ts";

/**
 * A server that uses only node:http2. It shows the minimum cost of gRPC. This server supports one method, and expects
 * one gRPC frame in each direction. It validates almost nothing.
 */
const work = await openWork();
const server = createServer();

server.on("stream", (stream, headers) => {
  const chunks: Buffer[] = [];
  stream.on("error", () => {});
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", async () => {
    try {
      const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      const request = fromBinary(GetUserGroupRequestSchema, body.subarray(5, 5 + body.readUInt32BE(1)));
      const group = await work.read(headers.authorization, request.userGroupId);
      // At the end of a load, h2load closes streams that still wait for an answer.
      if (stream.destroyed) return;
      const message = toBinary(GetUserGroupResponseSchema, responseMessage(group));
      const frame = Buffer.allocUnsafe(5 + message.byteLength);
      frame[0] = 0;
      frame.writeUInt32BE(message.byteLength, 1);
      frame.set(message, 5);
      stream.respond({ ":status": 200, "content-type": "application/grpc+proto" }, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(frame);
    } catch {
      if (stream.destroyed) return;
      stream.respond(
        { ":status": 200, "content-type": "application/grpc+proto", "grpc-status": "13" },
        { endStream: true },
      );
    }
  });
});
server.listen(work.port, work.host, () => announce(work.host, work.port));
