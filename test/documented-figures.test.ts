import { type DescMessage, getOption } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { figuresByRow, rowsOf } from "@user-group-service/testing/documents";
import { describe, expect, it } from "vitest";
import { type FieldRules, field } from "../gen/buf/validate/validate_pb.ts";
import {
  ImportUserGroupsRequestSchema,
  ListUserGroupsRequestSchema,
} from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ImportedUserGroupSchema } from "../gen/usergroup/admin/v1/user_group_pb.ts";
import { json } from "../gen/usergroup/v1/json_rules_pb.ts";
import {
  GetUserGroupRequestSchema,
  RotateUserGroupTokenRequestSchema,
} from "../gen/usergroup/v1/user_group_service_pb.ts";
import {
  BODY_BYTES,
  DEFAULT_LIMITS,
  MAX_HEADER_BYTES,
  MAX_HTTP2_STREAMS,
  MAX_PIPELINED,
  RESPONSE_BYTES,
  UNANSWERED_CHECKS,
} from "../packages/transport/src/limits.ts";
import { REFUSAL_STATUS } from "../packages/transport/src/protocol/refusals.ts";
import { MAX_KEYS } from "../src/auth/rate-limiter.ts";
import { loadConfig } from "../src/config/config.ts";
import { MAX_CALLS, MAX_MESSAGE_BYTES, MAX_OPEN_MESSAGE_BYTES, STREAMS } from "../src/domain/capacity.ts";
import { IPV6_PREFIX_HEXTETS } from "../src/domain/client-address.ts";
import { ENVIRONMENT_NUMBERS, TEAM_IDS } from "../src/domain/environment.ts";
import { LOG_FIELDS } from "../src/observability/log.ts";
import { MAX_ETAGS } from "../src/rest/user.ts";
import { MAX_ERROR_BYTES, MAX_QUOTED, MAX_VIOLATIONS } from "../src/rpc/all-rules.ts";
import { PROBE_KEPT_MS } from "../src/rpc/readiness.ts";
import { MAX_FILE_BYTES, MAX_QUESTIONS } from "../src/rpc/reflection.ts";
import { REQUEST_TTL_MS } from "../src/store/groups/rotations.ts";
import { MAX_PAGE_BYTES } from "../src/store/groups/user-group-admin.ts";

/** Returns the rules of one kind of a field. */
function rulesOf<Kind extends NonNullable<FieldRules["type"]["case"]>>(
  desc: DescMessage,
  name: string,
  kind: Kind,
): Extract<FieldRules["type"], { case: Kind }>["value"] {
  const { type } = getOption(desc.field[name] ?? expect.fail(name), field);
  return (type.case === kind ? type.value : expect.fail(`${name} has no rules of ${kind}`)) as never;
}

const {
  firstByteTimeoutMs,
  headerTimeoutMs,
  arrivalTimeoutMs,
  openArrivalTimeoutMs,
  readTimeoutMs,
  idleTimeoutMs,
  deadSessionCheckMs,
} = DEFAULT_LIMITS;
const { maxConnections, authFailureLimit } = await loadConfig({});

/** The figures of each row of a table, sorted as `ordered` does. */
function figuresIn(document: string, section: string): number[][] {
  return ordered(figuresByRow(document, section).map(([, ...figures]) => figures));
}

/** Sorts rows by their figures only. */
function ordered(rows: readonly (readonly unknown[])[]): number[][] {
  return rows.map((row) => row.map(Number)).sort((one, other) => String(one).localeCompare(String(other)));
}

describe("the documented limits equal those of the code", () => {
  it("in docs/api.md", () => {
    const id = rulesOf(GetUserGroupRequestSchema, "userGroupId", "string");
    const name = rulesOf(GetUserGroupRequestSchema, "name", "string");
    const mapping = rulesOf(GetUserGroupRequestSchema, "mapping", "map");
    const [keys, values] = [mapping.keys?.type.value, mapping.values?.type.value] as {
      minLen?: bigint;
      maxLen: bigint;
    }[];
    const properties = getOption(GetUserGroupRequestSchema.field.properties, json);
    const ttl = rulesOf(RotateUserGroupTokenRequestSchema, "previousTokenTtl", "duration");
    const requestId = rulesOf(RotateUserGroupTokenRequestSchema, "requestId", "string");
    const groups = rulesOf(ImportUserGroupsRequestSchema, "userGroups", "repeated");
    const page = rulesOf(ListUserGroupsRequestSchema, "pageSize", "int32");
    const imported = rulesOf(ImportedUserGroupSchema, "token", "string");
    const rows = [
      [MAX_MESSAGE_BYTES, arrivalTimeoutMs],
      [MAX_OPEN_MESSAGE_BYTES, openArrivalTimeoutMs],
      [MAX_HTTP2_STREAMS],
      [MAX_PIPELINED],
      [],
      [MAX_HEADER_BYTES],
      [id.minLen, id.maxLen],
      [name.maxLen],
      [mapping.maxPairs, keys?.minLen, keys?.maxLen, values?.maxLen],
      // The largest number is a power minus one.
      [properties.maxBytes, properties.maxDepth, Number.MAX_SAFE_INTEGER + 1, 1],
      [1e9, 1, 9999],
      [Number((ttl.lessThan.value as Duration).seconds) * 1000],
      [requestId.maxLen, REQUEST_TTL_MS],
      [groups.maxItems],
      [1, page.lessThan.value, MAX_PAGE_BYTES],
      [imported.minLen, imported.maxLen],
      // One number is unused.
      [ENVIRONMENT_NUMBERS - 1],
      [TEAM_IDS.toPrecision(2), TEAM_IDS.toPrecision(2)],
      [MAX_CALLS],
      [STREAMS.max, STREAMS.lifetimeMs],
      [MAX_QUESTIONS, MAX_FILE_BYTES],
      [MAX_ETAGS],
      [MAX_VIOLATIONS],
    ];
    expect(figuresIn("docs/api.md", "Limits")).toEqual(ordered(rows));
  });

  it("in docs/security.md", () => {
    const { "request-timeout": late, "header-too-large": tooLarge, "message-too-large": tooLong } = REFUSAL_STATUS;
    const rows = [
      [maxConnections],
      [firstByteTimeoutMs],
      [headerTimeoutMs, MAX_HEADER_BYTES, late, tooLarge],
      [MAX_HTTP2_STREAMS],
      // The second check at the latest sends a ping.
      [idleTimeoutMs, (UNANSWERED_CHECKS + 2) * deadSessionCheckMs],
      [arrivalTimeoutMs, MAX_MESSAGE_BYTES, openArrivalTimeoutMs, MAX_OPEN_MESSAGE_BYTES, late, tooLong],
      [BODY_BYTES, REFUSAL_STATUS["too-many-bodies"]],
      [MAX_PIPELINED],
      [readTimeoutMs, RESPONSE_BYTES.node, RESPONSE_BYTES.deno],
      [STREAMS.max, STREAMS.lifetimeMs, arrivalTimeoutMs],
      [MAX_QUESTIONS, MAX_FILE_BYTES],
      [MAX_CALLS],
      // The last figure is the measured time of a read from Redis, in microseconds.
      [authFailureLimit?.max, 128 - 16 * IPV6_PREFIX_HEXTETS, 429, 10],
      [MAX_KEYS],
      [MAX_CALLS],
      [PROBE_KEPT_MS],
      [MAX_VIOLATIONS, MAX_QUOTED, MAX_ERROR_BYTES],
    ];
    expect(figuresIn("docs/security.md", "Limits for unauthenticated clients")).toEqual(ordered(rows));
  });
});

it("the table of the log has exactly the fields of the code", () => {
  const documented = rowsOf("docs/operations/monitor.md", "Log").flatMap(([names = ""]) => names.split(", "));
  expect([...new Set(documented)].sort()).toEqual([...LOG_FIELDS].sort());
});
