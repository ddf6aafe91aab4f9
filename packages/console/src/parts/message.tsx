import type { DescField, DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { cellOf, factsOf, fieldOf, isJsonField, isTimeField, labelOf, valueIn } from "../../../operator/src/fields.ts";
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
  const facts = inOrder.map(
    ({ field, label, text, value }) => [capitalized(label), <Value field={field} value={value} text={text} />] as const,
  );
  return <Facts facts={facts} />;
}

function Value({ field, value, text }: { readonly field: DescField; readonly value: unknown; readonly text: string }) {
  if (isJsonField(field)) return <Json text={formatField(field, value)} />;
  if (isTimeField(field) && value !== undefined) return <Time time={value as Timestamp} isExact />;
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
    const textOf = (message: MessageShape<S>) => cellOf(schema, message, name) ?? "–";
    return {
      name: capitalized(labelOf(field)),
      of: (message) => {
        const text = textOf(message);
        if (isTimeField(field)) return <Time time={valueIn(message, field) as Timestamp | undefined} none={text} />;
        if (name === "role") return <Badge tone="accent">{text}</Badge>;
        return name === "state" ? <Badge tone="neutral">{text}</Badge> : <Visible text={text} />;
      },
    };
  });
}
