import type { JsonSchema } from "./rules.ts";

/** Maps the name of a field in the proto files to the value of the field in examples. */
const VALUES: { readonly [field: string]: unknown } = {
  user_group_id: "acme",
  token: "USER_GROUP_TOKEN",
  audience: "https://dashboards.example.com",
  environment: { name: "acme" },
  display_name: "back end",
  role: "ROLE_READ",
  api_token_id: "API_TOKEN_ID",
  user_groups: [{ providedId: "acme" }],
  token_key_id: "k1",
  webhook_id: "WEBHOOK_ID",
  url: "https://example.com/webhooks",
  start_time: "2027-01-31T12:00:00Z",
  reencrypt_start_time: "2027-01-31T12:00:00Z",
};

/**
 * Returns a request that contains only the required fields. If readers of the document send this request, they do not
 * change optional fields by accident.
 *
 * @throws Error if a required field has no value in this file
 */
export function exampleOf(schema: JsonSchema): JsonSchema {
  const { required = [], "x-exactly-one-of": choice = [] } = schema as {
    readonly required?: readonly string[];
    readonly "x-exactly-one-of"?: readonly string[];
  };
  const chosen = choice.filter((name) => valueName(name) === "user_group_id");
  const names = [...required, ...chosen];
  if (chosen.length === 0 && choice.length > 0)
    throw new Error(`scripts/openapi/examples.ts has no example for a choice without user_group_id: ${choice}`);
  return Object.fromEntries(
    names.map((name) => {
      const value = VALUES[valueName(name)];
      if (value === undefined) throw new Error(`scripts/openapi/examples.ts has no value for ${name}: add one`);
      return [name, value];
    }),
  );
}

function valueName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
