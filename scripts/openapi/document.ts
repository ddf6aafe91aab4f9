import type { DescService, Registry } from "@bufbuild/protobuf";
import { errorComponents } from "./errors.ts";
import { API_TOKEN_SCHEMES, pathsOf } from "./operations.ts";
import { restPaths, restSchemas } from "./rest.ts";
import type { JsonSchema } from "./rules.ts";
import { FieldRulesReader } from "./rules.ts";
import { Schemas } from "./schemas.ts";
import { readTables } from "./tables.ts";

/** The sources of a document. */
interface DocumentSources {
  /** The services whose methods it describes, in this order. */
  readonly services: readonly DescService[];
  readonly registry: Registry;
  /** The text of docs/api.md. */
  readonly api: string;
  readonly version: string;
}

const DESCRIPTION = `User groups, their tokens, and who is looking at an embedded dashboard.

The operations of a service, such as \`POST /usergroup.v1.UserGroupService/GetUserGroup\`, are its methods over [Connect](https://connectrpc.com/docs/protocol) with JSON; the same methods are served at the same paths over gRPC and gRPC-Web. Streams are served over those alone, and are not described here.

Requests are described in one form. More is taken, as JSON of proto3 has it: fields by the names of the proto files too (\`user_group_id\`), numbers as texts, enum values by their numbers, \`null\` for a field that is left out, and fields that are not known, which are ignored. Texts must be well-formed Unicode, and no object may have a key twice.

\`x-no-token\`: the text must not be a credential, such as a token of this service or a viewer session. \`x-visible\`: the text must have no code point that is not shown, such as a control or zero-width character, and no white space at either end. \`x-max-bytes\` and \`x-max-depth\`: the limits of a value's JSON. \`x-exact-numbers\`: numbers are from -(2^53 - 1) to 2^53 - 1, because larger ones are not stored exactly. \`x-in-future\`: the time must be in the future. \`x-json\`: the text is JSON of this schema. \`x-exactly-one-of\`, \`x-at-most-one-of\`: how many of these fields are given and not empty. \`x-access\`: the role that an API token needs. \`x-read-only\`: the operation changes nothing. \`x-reasons\`: the reasons of the errors.`;

/** Makes the OpenAPI document. @throws Error when something has no description */
export function documentOf({ services, registry, api, version }: DocumentSources): JsonSchema {
  const tables = readTables(api);
  const schemas = new Schemas(new FieldRulesReader(registry));
  const errors = errorComponents(tables.reasons);
  const components = { schemas, errors, tables };
  const paths = Object.assign(
    {},
    restPaths(components, registry),
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
      { name: "REST", description: "JSON over plain HTTP, for back ends that speak neither gRPC nor Connect." },
      ...services.map(({ name, typeName }) => ({ name, description: `\`${typeName}\`` })),
      { name: "Operation", description: "For operators. With `METRICS_PORT` set these are served on that port alone." },
    ],
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "The API token, which is sent as `Authorization: Bearer API_TOKEN`.",
        },
        token: {
          type: "apiKey",
          in: "header",
          name: "Authorization",
          description: "The header itself: `Token API_TOKEN`, with the word before the token.",
        },
        exploToken: {
          type: "apiKey",
          in: "header",
          name: "Explo-Authorization",
          description:
            "The same in a header of another name, for clients whose `Authorization` is taken: `Token API_TOKEN`.",
        },
      },
      schemas: { ...restSchemas(components, registry), ...errors.schemas, ...schemas.all },
      responses: errors.responses,
    },
  };
}
