import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { fromJsonString, toJsonString } from "@bufbuild/protobuf";
import { GetUserGroupRequestSchema, GetUserGroupResponseSchema } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { responseMessage } from "./messages.ts";
import { announce, openWork, restAnswer } from "./work.ts";

/**
 * A server that uses only node:http. It shows the minimum cost of JSON over HTTP/1.1. A POST is GetUserGroup over
 * Connect, and a GET is the REST call. This server validates almost nothing.
 */
const work = await openWork();

async function answerConnect(req: IncomingMessage, body: string): Promise<string> {
  const request = fromJsonString(GetUserGroupRequestSchema, body);
  const group = await work.read(req.headers.authorization, request.userGroupId);
  return toJsonString(GetUserGroupResponseSchema, responseMessage(group));
}

async function answerRest(req: IncomingMessage): Promise<string> {
  const target = req.url as string;
  const id = new URLSearchParams(target.slice(target.indexOf("?") + 1)).get("user_group_id") ?? "";
  return JSON.stringify(restAnswer(await work.read(req.headers.authorization, id)));
}

function send(res: ServerResponse, answer: Promise<string>): void {
  answer.then(
    (text) => {
      const body = Buffer.from(text);
      res.writeHead(200, { "content-type": "application/json", "content-length": body.byteLength });
      res.end(body);
    },
    () => {
      res.writeHead(500);
      res.end();
    },
  );
}

const server = createServer((req, res) => {
  if (req.method === "GET") {
    send(res, answerRest(req));
    return;
  }
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => send(res, answerConnect(req, Buffer.concat(chunks).toString())));
});
server.listen(work.port, work.host, () => announce(work.host, work.port));
