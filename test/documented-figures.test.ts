import { type DescMessage, getOption } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { figuresByRow, figuresOf, itemsOf, textOf } from "@user-group-service/testing/documents";
import { describe, expect, it } from "vitest";
import { type FieldRules, field } from "../gen/buf/validate/validate_pb.ts";
import {
  ImportUserGroupsRequestSchema,
  ListUserGroupsRequestSchema,
  SuspendUserGroupRequestSchema,
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
  UNANSWERED_CHECKS,
} from "../packages/transport/src/limits.ts";
import { CALL_BYTES, MAX_DEADLINE_WAIT_MS, MAX_WAIT_MS } from "../packages/transport/src/protocol/call-queue.ts";
import { REFUSAL_STATUS } from "../packages/transport/src/protocol/refusals.ts";
import { MAX_KEYS } from "../src/auth/rate-limiter.ts";
import { loadConfig } from "../src/config/config.ts";
import {
  MAX_CALLS,
  MAX_KEY_REQUESTS,
  MAX_MESSAGE_BYTES,
  MAX_OPEN_MESSAGE_BYTES,
  STREAMS,
} from "../src/domain/capacity.ts";
import { IPV6_PREFIX_HEXTETS } from "../src/domain/client-address.ts";
import { ENVIRONMENT_NUMBERS, TEAM_IDS } from "../src/domain/environment.ts";
import { DELIVERY_TIMEOUT_MS, MAX_WEBHOOKS } from "../src/domain/webhook.ts";
import { LOG_FIELDS } from "../src/observability/log.ts";
import { MAX_ERROR_BYTES, MAX_QUOTED, MAX_VIOLATIONS } from "../src/rpc/all-rules.ts";
import { PROBE_KEPT_MS } from "../src/rpc/readiness.ts";
import { MAX_FILE_BYTES, MAX_QUESTIONS } from "../src/rpc/reflection.ts";
import { MAX_PAGE_BYTES } from "../src/store/groups/user-group-admin.ts";
import { REQUEST_TTL_MS } from "../src/store/groups/user-groups.ts";
import { MAX_ACTIVE } from "../src/webhooks/engine.ts";
import { MAX_ANSWER_BYTES } from "../src/webhooks/sender.ts";

/**
 * Returns the validation rules of a field. `kind` is the expected type of the rules, such as `string`. If the type
 * differs, the test fails.
 */
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
  deadSessionCheckMs,
} = DEFAULT_LIMITS;
const { maxConnections, authFailureLimit } = await loadConfig({});

/** Returns the rows and list items that contain figures. Each result starts with the label, followed by the figures. */
function figuresIn(document: string, section: string) {
  return figuresByRow(document, section).filter(([, ...figures]) => figures.length > 0);
}

function plain(rows: readonly (readonly [label: string, ...figures: unknown[]])[]) {
  return rows.map(([label, ...figures]) => [label, ...figures.map(Number)]);
}

describe("documented limits", () => {
  it("the limits in docs/api.md equal the limits of the code", () => {
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
    const reason = rulesOf(SuspendUserGroupRequestSchema, "reason", "string");
    const message = rulesOf(SuspendUserGroupRequestSchema, "message", "string");
    const groups = rulesOf(ImportUserGroupsRequestSchema, "userGroups", "repeated");
    const page = rulesOf(ListUserGroupsRequestSchema, "pageSize", "int32");
    const imported = rulesOf(ImportedUserGroupSchema, "token", "string");
    const rows: [string, ...unknown[]][] = [
      ["request message", MAX_MESSAGE_BYTES, arrivalTimeoutMs],
      ["HTTP/1.1 request line and header fields", MAX_HEADER_BYTES],
      ["user_group_id", id.minLen, id.maxLen],
      ["name", name.maxLen],
      ["mapping", mapping.maxPairs, keys?.minLen, keys?.maxLen, values?.maxLen],
      // The row contains `2^53 - 1`. The test reads this text as two figures.
      ["properties", properties.maxBytes, properties.maxDepth, Number.MAX_SAFE_INTEGER + 1, 1],
      ["reason and message of a suspension", reason.maxLen, message.maxLen],
      ["durations and times in the binary format", 1e9, 1, 9999],
      ["previous_token_ttl", Number((ttl.lessThan.value as Duration).seconds) * 1000],
      ["request_id, Idempotency-Key", requestId.maxLen, REQUEST_TTL_MS],
      ["groups in a call of ImportUserGroups", groups.maxItems],
      ["items of a page", 1, page.lessThan.value, MAX_PAGE_BYTES],
      ["imported token of another system", imported.minLen, imported.maxLen],
      // The number 0 is never used, so the maximum number of environments is one less.
      ["environments", ENVIRONMENT_NUMBERS - 1],
      ["groups ever created in an environment", TEAM_IDS.toPrecision(2)],
      ["field violations in an error", MAX_VIOLATIONS],
    ];
    expect(figuresIn("docs/api.md", "Limits")).toEqual(plain(rows));
  });

  it("the limits in docs/security.md equal the limits of the code", () => {
    const { "request-timeout": late, "header-too-large": tooLarge, "message-too-large": tooLong } = REFUSAL_STATUS;
    const rows: [string, ...unknown[]][] = [
      ["connections per worker", maxConnections],
      ["connection without a first byte or a complete TLS handshake", firstByteTimeoutMs],
      ["headers", headerTimeoutMs, MAX_HEADER_BYTES, late, tooLarge],
      ["streams per HTTP/2 connection", MAX_HTTP2_STREAMS],
      // The server sends a ping at the second check at the latest. If the connection is still silent after
      // `UNANSWERED_CHECKS` more checks, the server closes it.
      ["silent HTTP/2 connection", (UNANSWERED_CHECKS + 2) * deadSessionCheckMs],
      [
        ...(["request body", arrivalTimeoutMs, MAX_MESSAGE_BYTES] as const),
        ...[openArrivalTimeoutMs, MAX_OPEN_MESSAGE_BYTES, late, tooLong],
      ],
      ["slow bodies per worker", BODY_BYTES, REFUSAL_STATUS["too-many-bodies"]],
      ["pipelined HTTP/1.1 requests per connection", MAX_PIPELINED],
      ["unread responses per worker", readTimeoutMs, RESPONSE_BYTES.node, RESPONSE_BYTES.deno],
      [
        "streams of Health/Watch, WatchEvents and reflection, slow bodies of open endpoints, unread data of refused requests",
        ...[STREAMS.max, STREAMS.lifetimeMs, arrivalTimeoutMs],
      ],
      ["reflection stream", MAX_QUESTIONS, MAX_FILE_BYTES],
      ["calls that wait or are in flight per worker", MAX_CALLS, CALL_BYTES, MAX_WAIT_MS, MAX_DEADLINE_WAIT_MS],
      // The last figure is the measured time of a read from Redis, in microseconds.
      ["authentication failures", authFailureLimit?.max, 128 - 16 * IPV6_PREFIX_HEXTETS, 429, 10],
      ["counters of each rate limit per worker", MAX_KEYS],
      ["requests for published keys that wait for Redis, per worker", MAX_KEY_REQUESTS],
      ["webhooks per environment", MAX_WEBHOOKS],
      ["concurrent deliveries of webhooks per worker", MAX_ACTIVE],
      ["response of a webhook's endpoint", DELIVERY_TIMEOUT_MS, MAX_ANSWER_BYTES],
      ["health checks of Redis", PROBE_KEPT_MS],
      ["error details", MAX_VIOLATIONS, MAX_QUOTED, MAX_ERROR_BYTES],
    ];
    expect(figuresIn("docs/security.md", "Limits for unauthenticated clients")).toEqual(plain(rows));
    const [rest = ""] = /discards the rest of the request[^.]*/.exec(textOf("docs/security.md")) ?? [];
    expect(figuresOf(rest)).toEqual([MAX_DISCARDED_BYTES, arrivalTimeoutMs]);
  });
});

it("the list of fields in monitor.md has exactly the fields in LOG_FIELDS", () => {
  const documented = itemsOf("docs/operations/monitor.md", "Log").flatMap(([names]) => names.split(", "));
  expect([...new Set(documented)].sort()).toEqual([...LOG_FIELDS].sort());
});
