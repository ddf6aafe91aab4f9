import type { DescMethod } from "@bufbuild/protobuf";

/* The name of a method is put together for every call. */

export const nameOf =
  () =>
  ({ parent, name }: DescMethod): string =>
    `${parent.typeName}/${name}`;
