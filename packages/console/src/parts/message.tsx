import type { DescField, DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { cellOf, factsOf, fieldOf, isJsonField, labelOf } from "../../../operator/src/fields.ts";
import { formatField } from "../../../operator/src/input.ts";
import { type Column, Facts } from "./table.tsx";

/** A label as it begins a line. */
export function capitalized(label: string): string {
  return label.charAt(0).toUpperCase() + label.slice(1);
}

/** The facts of a message of the API. */
export function MessageFacts<S extends DescMessage>({
  schema,
  message,
}: {
  readonly schema: S;
  readonly message: MessageShape<S>;
}) {
  const facts = factsOf(schema, message).map(
    ({ field, label, text, value }) => [capitalized(label), <Value field={field} value={value} text={text} />] as const,
  );
  return <Facts facts={facts} />;
}

function Value({ field, value, text }: { readonly field: DescField; readonly value: unknown; readonly text: string }) {
  if (isJsonField(field)) return <pre>{formatField(field, value)}</pre>;
  return /(^|_)id$|^etag$/.test(field.name) ? <code>{text}</code> : <span>{text}</span>;
}

/** The badge of a suspended user group. */
export function SuspendedBadge({ suspension }: Pick<UserGroupInfo, "suspension">) {
  return suspension ? <span class="badge">Suspended{suspension.reason && `: ${suspension.reason}`}</span> : null;
}

/** Columns of a table of messages, by the names of their fields. */
export function columnsFor<S extends DescMessage>(schema: S, names: readonly string[]): Column<MessageShape<S>>[] {
  return names.map((name) => ({
    name: capitalized(labelOf(fieldOf(schema, name))),
    of: (message) => cellOf(schema, message, name) ?? "–",
  }));
}
