import type { AnyDesc, DescFile } from "@bufbuild/protobuf";
import { getComments } from "@bufbuild/protoplugin";

interface Description {
  readonly description?: string;
  readonly deprecated?: true;
}

/** @param more lines that follow the comment */
export function describe(
  desc: Exclude<AnyDesc, DescFile> & { readonly deprecated: boolean },
  more: readonly string[] = [],
): Description {
  const comment = commentOf(desc);
  const description = [comment, more.join("\n")].filter((part) => part !== "").join("\n\n");
  return { ...(description !== "" && { description }), ...(desc.deprecated && { deprecated: true }) };
}

/** Returns the comment before or after a declaration. Empty if the declaration has no comment. */
function commentOf(desc: Exclude<AnyDesc, DescFile>): string {
  const { leading, trailing } = getComments(desc);
  return (leading ?? trailing ?? "")
    .split("\n")
    .map((line) => line.trim())
    .join("\n")
    .trim();
}
