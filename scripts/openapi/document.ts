import type { DescService, Registry } from "@bufbuild/protobuf";
import { errorComponents } from "./errors.ts";
import { API_TOKEN_SCHEMES, pathsOf } from "./operations.ts";
import { restPaths, restSchemas } from "./rest.ts";
import type { JsonSchema } from "./rules.ts";
import { FieldRulesReader } from "./rules.ts";
import { Schemas } from "./schemas.ts";
import { readTables } from "./tables.ts";
import { webhooksOf } from "./webhooks.ts";

interface DocumentSources {
  readonly services: readonly DescService[];
  readonly registry: Registry;
  /** The content of docs/api.md. */
  readonly api: string;
  readonly version: string;
}

const DESCRIPTION = `User groups, their tokens and viewer sessions.

Each operation of a service, such as \`POST /usergroup.v1.UserGroupService/GetUserGroup\`, is a method over [Connect](https://connectrpc.com/docs/protocol) with JSON. The same paths serve the methods over gRPC and gRPC-Web. Streams are not in this document.

The document describes one form of each request. The service also accepts the other forms of proto3 JSON: field names of the proto files (\`user_group_id\`), numbers as strings, enum values as numbers, and \`null\` for an unset field. The service ignores unknown fields. Strings must be valid Unicode, and objects must not have duplicate keys.

| keyword | meaning |
|---|---|
| \`x-no-token\` | the string must not be a credential, such as a token of this service or a viewer session |
| \`x-visible\` | all characters must be visible: no control or zero-width characters, and no white space at either end |
| \`x-max-bytes\`, \`x-max-depth\` | maximum size of the value as compact JSON in UTF-8, in bytes, and maximum nesting depth of objects and arrays |
| \`x-exact-numbers\` | numbers must be from -(2^53 - 1) to 2^53 - 1, because larger numbers are not stored exactly |
| \`x-min-seconds\`, \`x-max-seconds\` | limits of the duration |
| \`x-in-future\` | the time must be in the future |
| \`x-json\` | the string is JSON of this schema |
| \`x-exactly-one-of\`, \`x-at-most-one-of\` | exactly or at most one of these fields must be set and not empty |
| \`x-access\` | role that the API token needs |
| \`x-read-only\` | the operation changes nothing |
| \`x-reasons\` | reasons of the errors |`;

/** @throws Error if an element of the document has no description */
export function documentOf({ services, registry, api, version }: DocumentSources): JsonSchema {
  const tables = readTables(api);
  const schemas = new Schemas(new FieldRulesReader(registry));
  const errors = errorComponents(tables.reasons);
  const components = { schemas, errors, tables };
  const ofRest = restSchemas(components, registry);
  const paths = Object.assign(
    {},
    restPaths(components, registry, ofRest),
    ...services.map((service) => pathsOf(service, components)),
  );
  return {
    openapi: "3.1.1",
    info: {
      title: "User Group Service",
      version,
      description: DESCRIPTION,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: API_TOKEN_SCHEMES,
    tags: [
      { name: "REST", description: "JSON over HTTP, for back ends without gRPC or Connect." },
      ...services.map(({ name, typeName }) => ({ name, description: `\`${typeName}\`` })),
      {
        name: "Webhooks",
        description: "Messages that the service sends to webhooks, signed according to Standard Webhooks.",
      },
      {
        name: "Operation",
        description: "Endpoints for operators. If `METRICS_PORT` is set, only that port serves these endpoints.",
      },
    ],
    paths,
    webhooks: webhooksOf(),
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "The API token, sent as `Authorization: Bearer API_TOKEN`.",
        },
        token: {
          type: "apiKey",
          in: "header",
          name: "Authorization",
          description: "The value of the header: `Token API_TOKEN`.",
        },
        exploToken: {
          type: "apiKey",
          in: "header",
          name: "Explo-Authorization",
          description:
            "The value of the header: `Token API_TOKEN`. This header is for clients that use `Authorization` for another purpose.",
        },
      },
      schemas: { ...ofRest, ...errors.schemas, ...schemas.all },
      responses: errors.responses,
    },
  };
}
