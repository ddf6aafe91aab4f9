import { fastify } from "fastify";
import { announce, openWork, restAnswer } from "./work.ts";

/** A typical JSON API with Fastify and ioredis. The schemas validate requests and speed up the serialization. */
const work = await openWork();
const app = fastify();

const string = { type: "string" } as const;
const mapping = { type: "object", additionalProperties: string } as const;
const properties = { type: "object", nullable: true, additionalProperties: true } as const;
const id = { type: "string", minLength: 1, maxLength: 256, pattern: "^[^\\x00-\\x1f\\x7f-\\x9f]*$" } as const;
const name = { type: "string", maxLength: 256 } as const;

const restAnswerSchema = {
  type: "object",
  properties: {
    success: { type: "integer" },
    new_user_group: { type: "boolean" },
    user_group: {
      type: "object",
      properties: { team_id: { type: "integer" }, token: string, name: string, provided_id: string, properties },
    },
  },
} as const;

const connectAnswerSchema = {
  type: "object",
  properties: {
    userGroup: {
      type: "object",
      properties: {
        teamId: string,
        token: string,
        name: string,
        providedId: string,
        mapping,
        properties,
        apiEnvironmentTag: string,
        etag: string,
        createTime: string,
        updateTime: string,
        tokenCreateTime: string,
      },
    },
  },
} as const;

app.get<{ Querystring: { user_group_id: string } }>(
  "/api/user",
  {
    schema: {
      querystring: { type: "object", required: ["user_group_id"], properties: { user_group_id: id, name } },
      response: { 200: restAnswerSchema },
    },
  },
  async (request) => restAnswer(await work.read(request.headers.authorization, request.query.user_group_id)),
);

app.post<{ Body: { userGroupId: string } }>(
  "/usergroup.v1.UserGroupService/GetUserGroup",
  {
    schema: {
      body: {
        type: "object",
        required: ["userGroupId"],
        properties: { userGroupId: id, name, mapping, properties },
      },
      response: { 200: connectAnswerSchema },
    },
  },
  async (request) => {
    const group = await work.read(request.headers.authorization, request.body.userGroupId);
    return {
      userGroup: {
        ...group,
        teamId: String(group.teamId),
        apiEnvironmentTag: "API_ENVIRONMENT_TAG_CUSTOMER",
        createTime: new Date(group.createTime).toISOString(),
        updateTime: new Date(group.updateTime).toISOString(),
        tokenCreateTime: new Date(group.tokenCreateTime).toISOString(),
      },
    };
  },
);

await app.listen({ host: work.host, port: work.port });
announce(work.host, work.port);
