import { type DescMessage, getOption } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { figuresByRow, figuresOf, rowsOf, textOf } from "@user-group-service/testing/documents";
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
  MAX_DISCARDED_BYTES,
  MAX_HEADER_BYTES,
  MAX_HTTP2_STREAMS,
  MAX_PIPELINED,
  RESPONSE_BYTES,
  UNANSWERED_LOOKS,
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

/** The rules of one kind that a field has. */
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

/** The rows of a table by their first cells, so that their order does not matter. */
const byName = (rows: readonly (readonly [string, ...unknown[]])[]) =>
  Object.fromEntries(rows.map(([name, ...figures]) => [name, figures]));

describe("every figure is that of the code", () => {
  it("in the limits of docs/api.md", () => {
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
    const plain = (row: readonly [string, ...unknown[]]) => row.map((cell, i) => (i === 0 ? cell : Number(cell)));
    const rows: [string, ...unknown[]][] = [
      ["request message", MAX_MESSAGE_BYTES, arrivalTimeoutMs],
      ["request message to health and reflection", MAX_OPEN_MESSAGE_BYTES, openArrivalTimeoutMs],
      ["HTTP/2 streams per connection", MAX_HTTP2_STREAMS],
      ["pipelined HTTP/1.1 requests per connection", MAX_PIPELINED],
      ["HTTP/1.1 requests with Upgrade without TLS, such as of the JDK's HttpClient and curl --http2"],
      ["HTTP/1.1 request line and header fields", MAX_HEADER_BYTES],
      ["user_group_id", id.minLen, id.maxLen],
      ["name", name.maxLen],
      ["mapping", mapping.maxPairs, keys?.minLen, keys?.maxLen, values?.maxLen],
      // The largest number is one less than a power.
      ["properties", properties.maxBytes, properties.maxDepth, Number.MAX_SAFE_INTEGER + 1, 1],
      ["durations and times in the binary format", 1e9, 1, 9999],
      ["previous_token_ttl", Number((ttl.lessThan.value as Duration).seconds) * 1000],
      ["request_id, Idempotency-Key", requestId.maxLen, REQUEST_TTL_MS],
      ["groups of an import", groups.maxItems],
      ["items of a page", 1, page.lessThan.value, MAX_PAGE_BYTES],
      ["imported token of another system", imported.minLen, imported.maxLen],
      // One number is nobody's.
      ["environments", ENVIRONMENT_NUMBERS - 1],
      ["groups ever created in an environment", TEAM_IDS.toPrecision(2), TEAM_IDS.toPrecision(2)],
      ["calls in flight", MAX_CALLS],
      ["Watch and reflection streams", STREAMS.max, STREAMS.lifetimeMs],
      ["requests on a reflection stream", MAX_QUESTIONS, MAX_FILE_BYTES],
      ["entity tags in If-Match", MAX_ETAGS],
      ["violations in an error", MAX_VIOLATIONS],
    ];
    expect(figuresByRow("docs/api.md", "Limits")).toEqual(rows.map(plain));
  });

  it("in the limits of docs/security.md", () => {
    const { "request-timeout": late, "header-too-large": tooLarge, "message-too-large": tooLong } = REFUSAL_STATUS;
    const rows: [string, ...unknown[]][] = [
      ["connections per worker", maxConnections],
      ["connection before its first byte or TLS handshake", firstByteTimeoutMs],
      ["headers", headerTimeoutMs, MAX_HEADER_BYTES, late, tooLarge],
      ["streams per HTTP/2 connection", MAX_HTTP2_STREAMS],
      // It is pinged at the second look at the latest.
      ["idle HTTP/2 connection", idleTimeoutMs, (UNANSWERED_LOOKS + 2) * deadSessionCheckMs],
      [
        ...(["request body", arrivalTimeoutMs, MAX_MESSAGE_BYTES] as const),
        ...[openArrivalTimeoutMs, MAX_OPEN_MESSAGE_BYTES, late, tooLong],
      ],
      ["slow bodies per worker", BODY_BYTES, REFUSAL_STATUS["too-many-bodies"]],
      ["pipelined HTTP/1.1 requests per connection", MAX_PIPELINED],
      ["unread responses per worker", readTimeoutMs, RESPONSE_BYTES.node, RESPONSE_BYTES.deno],
      [
        "streams of Watch and reflection, slow bodies of open endpoints, rests of refused requests",
        ...[STREAMS.max, STREAMS.lifetimeMs, arrivalTimeoutMs],
      ],
      ["reflection stream", MAX_QUESTIONS, MAX_FILE_BYTES],
      ["calls in flight per worker", MAX_CALLS],
      // The last is what a look at Redis takes, in microseconds: it was measured.
      ["authentication failures", authFailureLimit?.max, 128 - 16 * IPV6_PREFIX_HEXTETS, 429, 10],
      ["rate limit keys per worker and limit", MAX_KEYS],
      ["requests for published keys that wait for Redis, per worker", MAX_CALLS],
      ["health checks of Redis", PROBE_KEPT_MS],
      ["error details", MAX_VIOLATIONS, MAX_QUOTED, MAX_ERROR_BYTES],
    ];
    const documented = figuresByRow("docs/security.md", "Limits for unauthenticated clients");
    expect(byName(documented)).toEqual(byName(rows));
    const [rest = ""] = /the rest of the request[^.]*/.exec(textOf("docs/security.md")) ?? [];
    expect(figuresOf(rest)).toEqual([MAX_DISCARDED_BYTES, arrivalTimeoutMs]);
  });
});

it("the table of the log has every field, and no other", () => {
  const documented = rowsOf("docs/operations/monitor.md", "Log").flatMap(([names = ""]) => names.split(", "));
  expect([...new Set(documented)].sort()).toEqual([...LOG_FIELDS].sort());
});
