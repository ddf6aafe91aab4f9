import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { describe } from "./descriptions.ts";
import type { ErrorComponents } from "./errors.ts";
import { exampleOf } from "./examples.ts";
import { isRead } from "./reasons.ts";
import type { JsonSchema } from "./rules.ts";
import type { Schemas } from "./schemas.ts";
import type { Tables } from "./tables.ts";

/** The operations of a document, by path and HTTP method. */
export type Paths = { readonly [path: string]: JsonSchema };

export interface Components {
  readonly schemas: Schemas;
  readonly errors: ErrorComponents;
  readonly tables: Tables;
}

/** The ways to send an API token. Each call uses one of them. See `securitySchemes` in document.ts. */
export const API_TOKEN_SCHEMES = [{ bearer: [] }, { token: [] }, { exploToken: [] }];

/**
 * Describes the unary methods of a service over Connect with JSON. OpenAPI cannot describe streams.
 *
 * @throws Error if a method is not in the table of methods
 */
export function pathsOf(service: DescService, components: Components): Paths {
  const unary = service.methods.filter(({ methodKind }) => methodKind === "unary");
  return Object.fromEntries(
    unary.map((method) => [`/${service.typeName}/${method.name}`, { post: operationOf(method, components) }]),
  );
}

function operationOf(method: DescMethod, { schemas, errors, tables }: Components): JsonSchema {
  const name = `${method.parent.typeName}/${method.name}`;
  const access = tables.access.get(name);
  if (access === undefined)
    throw new Error(`docs/api.md does not say who may call ${name}: add it to the table of methods`);
  const isOpen = access === "open";
  const { description = "", ...rest } = describe(method);
  const schema = schemas.message(method.input);
  const example = exampleOf(schemas.all[method.input.typeName] ?? {});
  return {
    operationId: `${method.parent.name}_${method.name}`,
    summary: method.name,
    tags: [method.parent.name],
    ...rest,
    description: `${description}\n\n${whoMayCall(access)}`.trim(),
    ...(isOpen ? { security: [] } : {}),
    "x-access": access,
    ...(isRead(method) && { "x-read-only": true }),
    requestBody: { required: true, content: { "application/json": { schema, example } } },
    responses: {
      200: {
        description: "The result. Missing fields have their default value.",
        content: { "application/json": { schema: schemas.message(method.output) } },
      },
      ...errors.of({ method, access, isRest: false }),
    },
  };
}

/** @param access the role in the table of methods */
export function whoMayCall(access: string): string {
  if (access === "open") return "Needs no API token.";
  if (access === "any") return "Accepts any API token, and `ADMIN_TOKEN`.";
  if (access === "ADMIN_TOKEN") return "Needs `ADMIN_TOKEN`.";
  return `Needs an API token of the role \`${access}\`${access === "admin" ? ", or `ADMIN_TOKEN`" : " or a higher role"}.`;
}
