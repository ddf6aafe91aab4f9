/** A series of the service with values of its own, a minute apart, as promtool writes them. */
export interface Input {
  /** Of the page of a server; the first series that has these labels is meant. */
  readonly metric: string;
  readonly labels?: { readonly [label: string]: string };
  /** Labels that get another value than the server gave them. */
  readonly as?: { readonly [label: string]: string };
  readonly values: string;
}

/** What becomes of an alert. */
export interface AlertCase {
  readonly alert: string;
  readonly when: string;
  readonly series: readonly Input[];
  /** The time of the look, as promtool writes it. */
  readonly at: string;
  /** The text and the further labels with which it fires; undefined: it is silent. */
  readonly fires?: { readonly description: string; readonly labels?: readonly string[] };
}

const GET = { grpc_method: "GetUserGroup", protocol: "grpc" };
const handled = (grpc_code: string, values: string): Input => ({
  metric: "grpc_server_handled_total",
  labels: { ...GET, grpc_code },
  values,
});
const up = (values: string, instance = "a:1"): Input => ({ metric: "up", as: { instance }, values });
const plain = (metric: string, values: string): Input => ({ metric, values });
const limited = (limit: string, values: string): Input => ({ metric: "ugs_limited_total", labels: { limit }, values });
const ofRedis = (metric: string, values: string): Input => ({ metric, labels: { operation: "environment" }, values });
const bucket = (metric: string, le: string, values: string): Input => {
  const labels = metric.startsWith("ugs_") ? { operation: "environment" } : GET;
  return { metric: `${metric}_bucket`, labels: { ...labels, le }, values };
};
const holding = (key_id: string, use: "encrypt" | "decrypt", workers = 1): Input => ({
  metric: "ugs_token_key_workers",
  as: { key_id, use },
  values: `${workers}x90`,
});
const lost = (cause: string, values: string): Input => ({ metric: "ugs_spans_lost_total", labels: { cause }, values });
const ready = (kind: string, values: string): Input => ({ metric: "ugs_ready", labels: { kind }, values });
const memory = (used: string): readonly Input[] => [
  plain("ugs_redis_memory_used_bytes", used),
  plain("ugs_redis_memory_max_bytes", "100x90"),
];
const started = (values: string): Input => ({ metric: "grpc_server_started_total", labels: GET, values });
const tokenEnds = (seconds: number) => plain("ugs_api_token_expire_time_seconds", `${seconds}x40`);
const certificateEnds = (seconds: number) => plain("ugs_certificate_expire_time_seconds", `${seconds}x40`);
const DAY = 86_400;

/** At least one for each alert in which it fires, and one in which it is silent. */
export const ALERT_CASES: readonly AlertCase[] = [
  {
    ...{ alert: "UserGroupsCallsFail", when: "one call in twenty fails", at: "2h" },
    series: [handled("OK", "0+95x120"), handled("Unavailable", "0+5x120")],
    fires: { description: "5% of calls fail; at this rate a month of allowed failures is used up within five days." },
  },
  {
    ...{ alert: "UserGroupsCallsFail", when: "one in a hundred fails all day", at: "12h" },
    series: [handled("OK", "0+990x720"), handled("Internal", "0+10x720")],
    fires: { description: "1% of calls fail; at this rate a month of allowed failures is used up within five days." },
  },
  {
    ...{ alert: "UserGroupsCallsFail", when: "they failed, and do not any more", at: "2h" },
    series: [handled("OK", "0+95x120"), handled("Unavailable", "0+5x60 300x60")],
  },
  {
    ...{ alert: "UserGroupsCallsFail", when: "half of ten calls failed", at: "1h" },
    series: [handled("OK", "0x50 0+1x10"), handled("Unavailable", "0x55 0+1x5")],
  },
  {
    ...{ alert: "UserGroupsCallsFail", when: "callers are told of faults of their own", at: "2h" },
    series: [handled("OK", "0+10x120"), handled("InvalidArgument", "0+90x120")],
  },
  {
    ...{ alert: "UserGroupsCallsFailSlowly", when: "one call in 500 fails for three days", at: "72h" },
    series: [handled("OK", "0+998x4320"), handled("Unavailable", "0+2x4320")],
    fires: { description: "0.2% of the calls of three days failed; the objective allows 0.1 %." },
  },
  {
    ...{ alert: "UserGroupsCallsFailSlowly", when: "one in 2,000 does", at: "72h" },
    series: [handled("OK", "0+1999x4320"), handled("Unavailable", "0+1x4320")],
  },
  {
    ...{ alert: "UserGroupsDown", when: "all instances are down", at: "5m" },
    series: [up("0x10"), up("0x10", "b:1")],
    fires: { description: "Prometheus reads metrics from none of the instances." },
  },
  {
    ...{ alert: "UserGroupsDown", when: "none is known", at: "5m" },
    series: [],
    fires: { description: "Prometheus reads metrics from none of the instances." },
  },
  { alert: "UserGroupsDown", when: "one of two is up", at: "5m", series: [up("0x10"), up("1x10", "b:1")] },
  {
    ...{ alert: "UserGroupsInstanceDown", when: "one of two is down", at: "7m" },
    series: [up("0x10"), up("1x10", "b:1")],
    fires: {
      description: "a:1 has given no metrics for five minutes: it is down, or one of its workers hangs.",
      labels: ["instance"],
    },
  },
  { alert: "UserGroupsInstanceDown", when: "it restarts", at: "7m", series: [up("0x3 1x10")] },
  {
    ...{ alert: "UserGroupsRedisAway", when: "it is not connected", at: "3m" },
    series: [plain("ugs_redis_ready", "0x10")],
    fires: {
      description: "a:1 has no connection to a node of Redis that has data; calls that need it fail.",
      labels: ["instance"],
    },
  },
  { alert: "UserGroupsRedisAway", when: "it is", at: "3m", series: [plain("ugs_redis_ready", "0 1x10")] },
  {
    ...{ alert: "UserGroupsReadsFail", when: "Redis answers no reads", at: "3m" },
    series: [ready("reads", "1 0x10"), ready("changes", "1 0x10")],
    fires: {
      description: "a:1 gets no reads answered by Redis, so /readyz is 503 and proxies send it no calls.",
      labels: ["instance", "kind"],
    },
  },
  {
    ...{ alert: "UserGroupsReadsFail", when: "only changes fail", at: "3m" },
    series: [ready("reads", "1x10"), ready("changes", "0x10")],
  },
  {
    ...{ alert: "UserGroupsChangesFail", when: "only changes fail", at: "3m" },
    series: [ready("changes", "1 0x10"), ready("reads", "1x10")],
    fires: {
      description: "a:1 can make no changes in at least one node of Redis; reads work.",
      labels: ["instance", "kind"],
    },
  },
  {
    ...{ alert: "UserGroupsChangesFail", when: "reads fail as well, which is another alert", at: "3m" },
    series: [ready("changes", "0x10"), ready("reads", "0x10")],
  },
  {
    ...{ alert: "UserGroupsRedisReplaced", when: "the data is not what it was", at: "1m" },
    series: [plain("ugs_redis_data_known", "1 0x10")],
    fires: {
      description:
        "a:1 does not find the data that it knows in Redis. It refuses changes, and what is missing is unavailable.",
      labels: ["instance"],
    },
  },
  { alert: "UserGroupsRedisReplaced", when: "it is", at: "5m", series: [plain("ugs_redis_data_known", "1x10")] },
  {
    ...{ alert: "UserGroupsRedisFull", when: "96 % of the memory is used", at: "3m" },
    series: memory("90 96x90"),
    fires: {
      description: "Redis NODE uses 96% of its memory, and refuses changes when it is full.",
      labels: ["node"],
    },
  },
  { alert: "UserGroupsRedisFull", when: "90 % is", at: "30m", series: memory("90x90") },
  {
    ...{ alert: "UserGroupsRedisFills", when: "85 % is used for half an hour", at: "30m" },
    series: memory("85x90"),
    fires: { description: "Redis NODE uses 85% of its memory.", labels: ["node"] },
  },
  { alert: "UserGroupsRedisFills", when: "half is", at: "30m", series: memory("50x90") },
  {
    ...{ alert: "UserGroupsCallsStop", when: "there were ten calls a second, and none for ten minutes", at: "70m" },
    series: [started("0+600x60 36000x30")],
    fires: { description: "Calls fell to 0 a second, less than 1 % of the half hour before." },
  },
  {
    ...{ alert: "UserGroupsCallsStop", when: "every other caller stays", at: "70m" },
    series: [started("0+600x60 36000+300x30")],
  },
  {
    ...{ alert: "UserGroupsCallsStop", when: "there was a call every ten seconds", at: "70m" },
    series: [started("0+6x60 360x30")],
  },
  {
    ...{ alert: "UserGroupsRedisFails", when: "one round trip in ten fails", at: "20m" },
    series: [ofRedis("ugs_redis_errors_total", "0+10x30"), ofRedis("ugs_redis_duration_seconds_count", "0+100x30")],
    fires: { description: "10% of the round trips of environment to Redis fail.", labels: ["operation"] },
  },
  {
    ...{ alert: "UserGroupsRedisFails", when: "one in a thousand does", at: "20m" },
    series: [ofRedis("ugs_redis_errors_total", "0+1x30"), ofRedis("ugs_redis_duration_seconds_count", "0+1000x30")],
  },
  {
    ...{ alert: "UserGroupsRedisSlow", when: "all take between 100 and 250 ms", at: "20m" },
    series: ["0.1", "0.25", "+Inf"].map((le) =>
      bucket("ugs_redis_duration_seconds", le, le === "0.1" ? "0x30" : "0+100x30"),
    ),
    fires: { description: "One round trip to Redis in a hundred takes 248.5ms or longer." },
  },
  {
    ...{ alert: "UserGroupsRedisSlow", when: "all take less than 1 ms", at: "20m" },
    series: ["0.001", "0.1", "+Inf"].map((le) => bucket("ugs_redis_duration_seconds", le, "0+100x30")),
  },
  {
    ...{ alert: "UserGroupsSlow", when: "calls take up to a second", at: "20m" },
    series: ["0.5", "1", "+Inf"].map((le) =>
      bucket("grpc_server_handling_seconds", le, le === "0.5" ? "0x30" : "0+100x30"),
    ),
    fires: { description: "One call in a hundred takes 995ms or longer." },
  },
  {
    ...{ alert: "UserGroupsSlow", when: "they take 5 ms", at: "20m" },
    series: ["0.005", "0.5", "+Inf"].map((le) => bucket("grpc_server_handling_seconds", le, "0+100x30")),
  },
  {
    ...{ alert: "UserGroupsOverloaded", when: "calls are refused without a limit", at: "15m" },
    series: [handled("ResourceExhausted", "0+600x30"), limited("api-token", "0x30")],
    fires: { description: "10 calls a second are refused, and not because of a limit on their callers." },
  },
  {
    ...{ alert: "UserGroupsOverloaded", when: "a limit refuses them", at: "15m" },
    series: [handled("ResourceExhausted", "0+600x30"), limited("api-token", "0+600x30")],
  },
  {
    ...{ alert: "UserGroupsBusy", when: "a worker uses 0.9 of a core", at: "25m" },
    series: [plain("process_cpu_seconds_total", "0+54x40"), plain("ugs_workers", "1x40")],
    fires: {
      description: "a:1 uses most of its cores, or its workers wait for their turn.",
      labels: ["instance"],
    },
  },
  {
    ...{ alert: "UserGroupsBusy", when: "timers are late", at: "25m" },
    series: [plain("nodejs_eventloop_lag_p99_seconds", "0.3x40")],
    fires: {
      description: "a:1 uses most of its cores, or its workers wait for their turn.",
      labels: ["instance"],
    },
  },
  {
    ...{ alert: "UserGroupsBusy", when: "two workers use one core", at: "25m" },
    series: [
      ...[plain("process_cpu_seconds_total", "0+60x40"), plain("ugs_workers", "2x40")],
      plain("nodejs_eventloop_lag_p99_seconds", "0.011x40"),
    ],
  },
  {
    ...{ alert: "UserGroupsMemory", when: "a worker holds 600 MiB", at: "25m" },
    series: [plain("process_resident_memory_bytes", `${1200 * 2 ** 20}x40`), plain("ugs_workers", "2x40")],
    fires: { description: "a:1 holds 600MiB a worker.", labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsMemory", when: "four hold as much together", at: "25m" },
    series: [plain("process_resident_memory_bytes", `${600 * 2 ** 20}x40`), plain("ugs_workers", "4x40")],
  },
  {
    ...{ alert: "UserGroupsWorkersEnd", when: "a worker ends every minute", at: "16m" },
    series: [plain("ugs_worker_exits_total", "0+1x20")],
    fires: { description: "Workers of a:1 ended 15 times in a quarter of an hour.", labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsWorkersEnd", when: "a single process is started again and again", at: "5m" },
    series: [plain("process_start_time_seconds", "100 200 300 400 400x20")],
    fires: { description: "Workers of a:1 ended 3 times in a quarter of an hour.", labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsWorkersEnd", when: "one ended", at: "16m" },
    series: [plain("ugs_worker_exits_total", "0x5 1x20"), plain("process_start_time_seconds", "100x5 200x20")],
  },
  {
    ...{ alert: "UserGroupsFaults", when: "one call failed with INTERNAL", at: "5m" },
    series: [handled("Internal", "0 1x20"), handled("OK", "0+1000x20")],
    fires: {
      description: "GetUserGroup failed 1 times in a quarter of an hour, and not because of Redis or its caller.",
      labels: ["grpc_method"],
    },
  },
  {
    ...{ alert: "UserGroupsFaults", when: "Redis is away", at: "5m" },
    series: [handled("Internal", "0x20"), handled("Unavailable", "0+10x20")],
  },
  {
    ...{ alert: "UserGroupsGuessed", when: "an address is refused each second", at: "20m" },
    series: [limited("address", "0+60x30")],
    fires: {
      description: "1 calls a second are refused because their addresses failed to authenticate too often.",
    },
  },
  {
    ...{ alert: "UserGroupsGuessed", when: "callers reach their limit", at: "20m" },
    series: [limited("address", "0x30"), limited("api-token", "0+60x30")],
  },
  {
    ...{ alert: "UserGroupsLimited", when: "a caller is refused each second", at: "30m" },
    series: [limited("api-token", "0+60x40")],
    fires: { description: "1 calls a second are refused because of RATE_LIMIT." },
  },
  { alert: "UserGroupsLimited", when: "it was a burst", at: "30m", series: [limited("api-token", "0 600x40")] },
  {
    ...{ alert: "UserGroupsAuditDropped", when: "ten updates were dropped", at: "5m" },
    series: [plain("ugs_audit_dropped_total", "0 10x20")],
    fires: { description: "10 updates were dropped within an hour, before AUDIT_RETENTION was over." },
  },
  {
    ...{ alert: "UserGroupsAuditDropped", when: "that was yesterday", at: "5m" },
    series: [plain("ugs_audit_dropped_total", "10x20")],
  },
  {
    ...{ alert: "UserGroupsApiTokenEnds", when: "one ends in six days", at: "20m" },
    series: [tokenEnds(6 * DAY)],
    fires: {
      description: "The API token API_TOKEN_ID of ENVIRONMENT ends in 5d 23h 40m 0s.",
      labels: ["environment", "api_token_id"],
    },
  },
  { alert: "UserGroupsApiTokenEnds", when: "in a month", at: "20m", series: [tokenEnds(30 * DAY)] },
  {
    ...{ alert: "UserGroupsCertificateEnds", when: "one ends in ten days", at: "20m" },
    series: [certificateEnds(10 * DAY)],
    fires: { description: "A certificate in TLS_CERT_FILE ends in 9d 23h 40m 0s.", labels: ["setting"] },
  },
  { alert: "UserGroupsCertificateEnds", when: "in a month", at: "20m", series: [certificateEnds(30 * DAY)] },
  {
    ...{ alert: "UserGroupsCertificateEndsNow", when: "one ends tomorrow", at: "5m" },
    series: [certificateEnds(DAY)],
    fires: { description: "A certificate in TLS_CERT_FILE ends in 23h 55m 0s.", labels: ["setting"] },
  },
  { alert: "UserGroupsCertificateEndsNow", when: "in ten days", at: "5m", series: [certificateEnds(10 * DAY)] },
  {
    ...{ alert: "UserGroupsFilesRefused", when: "a new file is wrong", at: "10m" },
    series: [plain("ugs_config_last_reload_successful", "0x20")],
    fires: {
      description: "a:1 keeps what TLS_CERT_FILE held before, for what it holds now cannot be used.",
      labels: ["instance", "setting"],
    },
  },
  {
    ...{ alert: "UserGroupsFilesRefused", when: "files changed one after another", at: "10m" },
    series: [plain("ugs_config_last_reload_successful", "0x2 1x20")],
  },
  {
    ...{ alert: "UserGroupsKeysDiffer", when: "a worker lacks the key of another one", at: "1m" },
    series: [holding("k2", "encrypt"), holding("k1", "decrypt"), holding("k1", "encrypt"), plain("ugs_workers", "2x5")],
    fires: {
      description: "Workers encrypt tokens under the key k2, and others lack it: they answer RECORD_UNREADABLE.",
      labels: ["key_id"],
    },
  },
  {
    ...{ alert: "UserGroupsKeysDiffer", when: "every worker holds both keys", at: "1m" },
    series: [
      ...[holding("k1", "encrypt"), holding("k2", "encrypt"), holding("k1", "decrypt"), holding("k2", "decrypt")],
      plain("ugs_workers", "2x5"),
    ],
  },
  {
    ...{ alert: "UserGroupsKeysMixed", when: "two keys encrypt for an hour", at: "75m" },
    series: [holding("k1", "encrypt"), holding("k2", "encrypt")],
    fires: { description: "Tokens have been encrypted under 2 keys at once for an hour." },
  },
  { alert: "UserGroupsKeysMixed", when: "all use one", at: "75m", series: [holding("k1", "encrypt")] },
  {
    ...{ alert: "UserGroupsSpansLost", when: "the collector is away", at: "25m" },
    series: [lost("export", "0+120x40"), lost("rate", "0x40")],
    fires: { description: "2 spans a second do not reach the collector: export.", labels: ["cause"] },
  },
  { alert: "UserGroupsSpansLost", when: "it was restarted", at: "25m", series: [lost("export", "0x8 300x40")] },
];
