import { create } from "@bufbuild/protobuf";
import { type EnvironmentName, EnvironmentNameSchema } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { ApiEnvironmentTag } from "../../../gen/usergroup/v1/user_group_pb.ts";
import { usageFailure } from "./failures.ts";

/** The tags of environments, as people write them. */
const TAGS: ReadonlyMap<string, ApiEnvironmentTag> = new Map([
  ["Customer", ApiEnvironmentTag.CUSTOMER],
  ["Testing", ApiEnvironmentTag.TESTING],
]);

/** Parses `NAME`, `NAME/Customer` or `NAME/Testing`. @throws Failure for anything else */
export function parseEnvironmentName(text: string): EnvironmentName {
  const [name = "", tagName, ...rest] = text.split("/");
  const tag = tagName === undefined ? ApiEnvironmentTag.UNSPECIFIED : TAGS.get(tagName);
  if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/.test(name) || tag === undefined || rest.length > 0)
    throw usageFailure(
      "an environment is written NAME, NAME/Customer or NAME/Testing; NAME has 1 to 64 letters, digits, '.', '_' or '-', and no dot in front",
    );
  return create(EnvironmentNameSchema, { name, tag });
}

/** Formats what `parseEnvironmentName` parses. */
export function formatEnvironmentName({ name, tag }: Pick<EnvironmentName, "name" | "tag">): string {
  for (const [tagName, value] of TAGS) if (value === tag) return `${name}/${tagName}`;
  return name;
}
