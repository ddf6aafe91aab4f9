import type { FieldMask } from "@bufbuild/protobuf/wkt";
import { InvalidUpdateMask } from "../domain/errors.ts";

/**
 * Which fields an update is of (https://google.aip.dev/134): those of its mask, all for `*`, those that are populated
 * without a mask.
 *
 * @param fields those that can be updated, by their names in the proto files
 * @throws InvalidUpdateMask
 */
export function maskedFields<Field extends string, Request extends { readonly updateMask?: FieldMask }>(
  request: Request,
  fields: readonly Field[],
  isPopulated: (request: Request, field: Field) => boolean,
): readonly Field[] {
  const paths = request.updateMask?.paths ?? [];
  if (paths.length === 0) return fields.filter((field) => isPopulated(request, field));
  if (paths.length === 1 && paths[0] === "*") return fields;
  return paths.map((path) => {
    const field = fields.find((known) => known === path);
    if (!field) throw new InvalidUpdateMask(fields);
    return field;
  });
}
