import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import {
  cellOf,
  type Fact,
  factsOf,
  fieldOf,
  isJsonField,
  isTimeField,
  labelOf,
  valueIn,
} from "../../../operator/src/fields.ts";
import { formatField } from "../../../operator/src/input.ts";
import { Badge } from "./badge.tsx";
import { Json } from "./json.tsx";
import { type Column, Facts } from "./table.tsx";
import { Time } from "./time.tsx";
import { Id, Visible } from "./visible.tsx";

export function capitalized(label: string): string {
  return label.charAt(0).toUpperCase() + label.slice(1);
}

/** Shows the fields of an API message, with their labels. */
export function MessageFacts<S extends DescMessage>({
  schema,
  message,
}: {
  readonly schema: S;
  readonly message: MessageShape<S>;
}) {
  const all = factsOf(schema, message);
  // Fields with JSON come last, because they may be long.
  const inOrder = [false, true].flatMap((isJson) => all.filter(({ field }) => isJsonField(field) === isJson));
  const facts = inOrder.map(({ label, ...fact }) => [capitalized(label), <Value {...fact} isExact />] as const);
  return <Facts facts={facts} />;
}

/** @param isExact whether to show the exact time as well */
function Value({ field, value, text, isExact }: Omit<Fact, "label"> & { readonly isExact?: boolean }) {
  if (isJsonField(field)) return <Json text={formatField(field, value)} />;
  if (isTimeField(field)) return <Time time={value as Timestamp | undefined} none={text} isExact={isExact} />;
  if (field.name === "role") return <Badge tone="accent">{text}</Badge>;
  return /(^|_)id$|^etag$/.test(field.name) ? <Id id={text} /> : <Visible text={text} />;
}

export function GroupState({ suspension }: Pick<UserGroupInfo, "suspension">) {
  if (!suspension) return <Badge tone="good">Active</Badge>;
  const { reason } = suspension;
  return (
    <Badge tone="warn">
      Suspended
      {reason && <Visible text={`: ${reason}`} />}
    </Badge>
  );
}

/** Returns the columns for the named fields of a message. */
export function columnsFor<S extends DescMessage>(schema: S, names: readonly string[]): Column<MessageShape<S>>[] {
  return names.map((name) => {
    const field = fieldOf(schema, name);
    return {
      name: capitalized(labelOf(field)),
      of: (message) => {
        const text = cellOf(schema, message, name) ?? "–";
        if (name === "state") return <Badge tone="neutral">{text}</Badge>;
        return <Value field={field} value={valueIn(message, field)} text={text} />;
      },
    };
  });
}
