import type { ChangeBy } from "../../src/domain/audit.ts";
import type { Environment } from "../../src/domain/environment.ts";
import type { NewUserGroup, UserGroup } from "../../src/domain/user-group.ts";
import { groupFromMessage } from "../../src/rpc/messages.ts";
import { candidateOf } from "../../src/store/environments.ts";

export interface Kind {
  readonly title: string;
  /** Redis' setting `hash-max-listpack-value`. */
  readonly compactValueBytes: number;
  group(number: number): NewUserGroup;
}

export const ENVIRONMENT: Environment = { name: "acme", tag: "Customer", number: candidateOf("acme/Customer", 0) };

export const BY: ChangeBy = {
  actorId: "0123456789abcdef",
  actorName: "Back end",
  role: "manage",
  method: "UpdateUserGroup",
  requestId: "01234567-89ab-cdef-0123-456789abcdef",
  peer: "192.0.2.1",
};

const short = (number: number): NewUserGroup =>
  groupFromMessage(idOf(number), {
    name: `Group number ${number}`,
    mapping: { schema: `source-${number}` },
    properties: { plan: "pro", seats: number % 100 },
  });

const long = (number: number): NewUserGroup => ({
  ...short(number),
  properties: {
    plan: "enterprise",
    seats: number % 100,
    country: "Netherlands",
    regions: ["eu-west-1", "eu-central-1", "us-east-2"],
    features: { export: true, alerts: true, embedding: number % 2 === 0, rows: 250_000 },
    owner: { name: `Owner of number ${number}`, email: `owner-${number}@customer.example` },
    notes: "Renewed for two years; wants the quarterly report by region and product line.",
  },
});

const LONG = "`properties` of a few hundred bytes";

export const KINDS: readonly Kind[] = [
  { title: "all values short", compactValueBytes: 64, group: short },
  { title: `${LONG}, default Redis settings`, compactValueBytes: 64, group: long },
  { title: `${LONG}, \`hash-max-listpack-value 1024\``, compactValueBytes: 1024, group: long },
];

export function idOf(number: number): string {
  return `group-${String(number).padStart(7, "0")}`;
}

/**
 * Returns the size of all values of a group in a response, in bytes. The size of a number is the number of its decimal
 * digits. A time is a number of milliseconds.
 */
export function payloadOf(group: UserGroup): number {
  const { providedId, name, mapping, properties, token, teamId, createTime, updateTime, tokenCreateTime } = group;
  const values = [providedId, name, JSON.stringify(mapping), properties ? JSON.stringify(properties) : "", token];
  return [...values, teamId, createTime, updateTime, tokenCreateTime]
    .map((value) => Buffer.byteLength(String(value)))
    .reduce((sum, bytes) => sum + bytes, 0);
}
