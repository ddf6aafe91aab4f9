import { create } from "@bufbuild/protobuf";
import { type EnvironmentName, EnvironmentNameSchema } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { ApiEnvironmentTag } from "../../../gen/usergroup/v1/user_group_pb.ts";

const TAGS: ReadonlyMap<string, ApiEnvironmentTag> = new Map([
  ["Customer", ApiEnvironmentTag.CUSTOMER],
  ["Testing", ApiEnvironmentTag.TESTING],
]);

/** Matches valid names of environments, and of the profiles of `ugs`. */
export const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

/** Formats the name of an environment as `NAME`, `NAME/Customer` or `NAME/Testing`. */
export function formatEnvironmentName({ name, tag }: Pick<EnvironmentName, "name" | "tag">): string {
  const [found] = [...TAGS].find(([, value]) => value === tag) ?? [];
  return found ? `${name}/${found}` : name;
}

/** Parses a text in the format of `formatEnvironmentName`. @returns undefined if the text has another format */
export function parseEnvironmentName(text: string): EnvironmentName | undefined {
  const [name = "", tag, ...others] = text.split("/");
  const value = tag === undefined ? ApiEnvironmentTag.UNSPECIFIED : TAGS.get(tag);
  if (!NAME.test(name) || value === undefined || others.length > 0) return undefined;
  return create(EnvironmentNameSchema, { name, tag: value });
}
