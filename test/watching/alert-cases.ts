/** A series of the service, with one value per minute in promtool's notation. */
export interface Input {
  /** Name of the metric. The test uses the first series of the metrics page that has this name and these `labels`. */
  readonly metric: string;
  readonly labels?: { readonly [label: string]: string };
  /** New values for labels of the series. The series must already have these labels on the metrics page. */
  readonly as?: { readonly [label: string]: string };
  readonly values: string;
}

export interface AlertCase {
  readonly alert: string;
  readonly when: string;
  readonly series: readonly Input[];
  /** Evaluation time, in promtool's notation. */
  readonly at: string;
  /**
   * The expected contents of the fired alert. `value` is the value in its description. `labels` are the names of its
   * labels, except for the labels that the rule sets itself. Undefined if the alert must not fire.
   */
  readonly fires?: { readonly value?: string; readonly labels?: readonly string[] };
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
const overloaded = (cause: string, values: string): Input => ({
  metric: "ugs_overloaded_total",
  labels: { cause },
  values,
});
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
const tokenExpiresIn = (seconds: number) => plain("ugs_api_token_expire_time_seconds", `${seconds}x40`);
const certificateExpiresIn = (seconds: number) => plain("ugs_certificate_expire_time_seconds", `${seconds}x40`);
const DAY = 86_400;

/** Each alert has at least one case in which it fires, and one case in which it does not fire. */
export const ALERT_CASES: readonly AlertCase[] = [
  {
    ...{ alert: "UserGroupsHighErrorRate", when: "one call in twenty fails", at: "2h" },
    series: [handled("OK", "0+95x120"), handled("Unavailable", "0+5x120")],
    fires: { value: "5%" },
  },
  {
    ...{ alert: "UserGroupsHighErrorRate", when: "one call in a hundred fails for half a day", at: "12h" },
    series: [handled("OK", "0+990x720"), handled("Internal", "0+10x720")],
    fires: { value: "1%" },
  },
  {
    ...{ alert: "UserGroupsHighErrorRate", when: "calls succeed again after an hour of failures", at: "2h" },
    series: [handled("OK", "0+95x120"), handled("Unavailable", "0+5x60 300x60")],
  },
  {
    ...{ alert: "UserGroupsHighErrorRate", when: "five of the ten calls of an hour fail", at: "1h" },
    series: [handled("OK", "0x50 0+1x10"), handled("Unavailable", "0x55 0+1x5")],
  },
  {
    ...{ alert: "UserGroupsHighErrorRate", when: "nine of ten calls fail with INVALID_ARGUMENT", at: "2h" },
    series: [handled("OK", "0+10x120"), handled("InvalidArgument", "0+90x120")],
  },
  {
    ...{ alert: "UserGroupsElevatedErrorRate", when: "one call in 500 fails for three days", at: "72h" },
    series: [handled("OK", "0+998x4320"), handled("Unavailable", "0+2x4320")],
    fires: { value: "0.2%" },
  },
  {
    ...{ alert: "UserGroupsElevatedErrorRate", when: "one call in 2,000 fails for three days", at: "72h" },
    series: [handled("OK", "0+1999x4320"), handled("Unavailable", "0+1x4320")],
  },
  {
    ...{ alert: "UserGroupsDown", when: "all instances are down", at: "5m" },
    series: [up("0x10"), up("0x10", "b:1")],
    fires: {},
  },
  {
    ...{ alert: "UserGroupsDown", when: "Prometheus has no target", at: "5m" },
    series: [],
    fires: {},
  },
  { alert: "UserGroupsDown", when: "one of two instances is up", at: "5m", series: [up("0x10"), up("1x10", "b:1")] },
  {
    ...{ alert: "UserGroupsInstanceDown", when: "one of two instances is down", at: "7m" },
    series: [up("0x10"), up("1x10", "b:1")],
    fires: { labels: ["instance"] },
  },
  {
    alert: "UserGroupsInstanceDown",
    when: "an instance is down for less than five minutes",
    at: "7m",
    series: [up("0x3 1x10")],
  },
  {
    ...{ alert: "UserGroupsRedisUnreachable", when: "a worker cannot connect to Redis", at: "3m" },
    series: [plain("ugs_redis_ready", "0x10")],
    fires: { labels: ["instance"] },
  },
  {
    alert: "UserGroupsRedisUnreachable",
    when: "a worker connects to Redis again",
    at: "3m",
    series: [plain("ugs_redis_ready", "0 1x10")],
  },
  {
    ...{ alert: "UserGroupsReadsFail", when: "Redis rejects reads", at: "3m" },
    series: [ready("reads", "1 0x10"), ready("changes", "1 0x10")],
    fires: { labels: ["instance", "kind"] },
  },
  {
    ...{ alert: "UserGroupsReadsFail", when: "only changes fail", at: "3m" },
    series: [ready("reads", "1x10"), ready("changes", "0x10")],
  },
  {
    ...{ alert: "UserGroupsChangesFail", when: "only changes fail", at: "3m" },
    series: [ready("changes", "1 0x10"), ready("reads", "1x10")],
    fires: { labels: ["instance", "kind"] },
  },
  {
    ...{ alert: "UserGroupsChangesFail", when: "reads and changes fail", at: "3m" },
    series: [ready("changes", "0x10"), ready("reads", "0x10")],
  },
  {
    ...{ alert: "UserGroupsRedisDataReplaced", when: "Redis has other data than before", at: "1m" },
    series: [plain("ugs_redis_data_known", "1 0x10")],
    fires: { labels: ["instance"] },
  },
  {
    alert: "UserGroupsRedisDataReplaced",
    when: "Redis still has the same data",
    at: "5m",
    series: [plain("ugs_redis_data_known", "1x10")],
  },
  {
    ...{ alert: "UserGroupsRedisMemoryCritical", when: "96 % of the memory is used", at: "3m" },
    series: memory("90 96x90"),
    fires: {
      value: "96%",
      labels: ["node"],
    },
  },
  { alert: "UserGroupsRedisMemoryCritical", when: "90 % of the memory is used", at: "30m", series: memory("90x90") },
  {
    ...{ alert: "UserGroupsRedisMemoryHigh", when: "85 % of the memory has been used for half an hour", at: "30m" },
    series: memory("85x90"),
    fires: { value: "85%", labels: ["node"] },
  },
  { alert: "UserGroupsRedisMemoryHigh", when: "half of the memory is used", at: "30m", series: memory("50x90") },
  {
    ...{
      alert: "UserGroupsNoTraffic",
      when: "ten calls per second are followed by ten minutes without calls",
      at: "70m",
    },
    series: [started("0+600x60 36000x30")],
    fires: { value: "0" },
  },
  {
    ...{ alert: "UserGroupsNoTraffic", when: "the number of calls falls by half", at: "70m" },
    series: [started("0+600x60 36000+300x30")],
  },
  {
    ...{
      alert: "UserGroupsNoTraffic",
      when: "one call every ten seconds is followed by ten minutes without calls",
      at: "70m",
    },
    series: [started("0+6x60 360x30")],
  },
  {
    ...{ alert: "UserGroupsRedisErrors", when: "one round trip in ten fails", at: "20m" },
    series: [ofRedis("ugs_redis_errors_total", "0+10x30"), ofRedis("ugs_redis_duration_seconds_count", "0+100x30")],
    fires: { value: "10%", labels: ["operation"] },
  },
  {
    ...{ alert: "UserGroupsRedisErrors", when: "one round trip in a thousand fails", at: "20m" },
    series: [ofRedis("ugs_redis_errors_total", "0+1x30"), ofRedis("ugs_redis_duration_seconds_count", "0+1000x30")],
  },
  {
    ...{ alert: "UserGroupsRedisSlow", when: "all round trips take between 100 and 250 ms", at: "20m" },
    series: ["0.1", "0.25", "+Inf"].map((le) =>
      bucket("ugs_redis_duration_seconds", le, le === "0.1" ? "0x30" : "0+100x30"),
    ),
    fires: { value: "248.5ms" },
  },
  {
    ...{ alert: "UserGroupsRedisSlow", when: "all round trips take less than 1 ms", at: "20m" },
    series: ["0.001", "0.1", "+Inf"].map((le) => bucket("ugs_redis_duration_seconds", le, "0+100x30")),
  },
  {
    ...{ alert: "UserGroupsHighLatency", when: "calls take between 0.5 and 1 s", at: "20m" },
    series: ["0.5", "1", "+Inf"].map((le) =>
      bucket("grpc_server_handling_seconds", le, le === "0.5" ? "0x30" : "0+100x30"),
    ),
    fires: { value: "995ms" },
  },
  {
    ...{ alert: "UserGroupsHighLatency", when: "calls take at most 5 ms", at: "20m" },
    series: ["0.005", "0.5", "+Inf"].map((le) => bucket("grpc_server_handling_seconds", le, "0+100x30")),
  },
  {
    ...{ alert: "UserGroupsOverloaded", when: "a worker refuses calls because too many are waiting", at: "15m" },
    series: [overloaded("queue-full", "0+600x30")],
    fires: { value: "10" },
  },
  {
    ...{ alert: "UserGroupsOverloaded", when: "RATE_LIMIT refuses calls", at: "15m" },
    series: [handled("ResourceExhausted", "0+600x30"), overloaded("queue-full", "0x30")],
  },
  {
    ...{ alert: "UserGroupsHighCpu", when: "a worker uses 0.9 of a core", at: "25m" },
    series: [plain("process_cpu_seconds_total", "0+54x40"), plain("ugs_workers", "1x40")],
    fires: { labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsHighCpu", when: "the event loop lag is high", at: "25m" },
    series: [plain("nodejs_eventloop_lag_p99_seconds", "0.3x40")],
    fires: { labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsHighCpu", when: "two workers together use one core", at: "25m" },
    series: [
      ...[plain("process_cpu_seconds_total", "0+60x40"), plain("ugs_workers", "2x40")],
      plain("nodejs_eventloop_lag_p99_seconds", "0.011x40"),
    ],
  },
  {
    ...{ alert: "UserGroupsHighMemory", when: "two workers use 600 MiB each", at: "25m" },
    series: [plain("process_resident_memory_bytes", `${1200 * 2 ** 20}x40`), plain("ugs_workers", "2x40")],
    fires: { value: "600Mi", labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsHighMemory", when: "four workers together use 600 MiB", at: "25m" },
    series: [plain("process_resident_memory_bytes", `${600 * 2 ** 20}x40`), plain("ugs_workers", "4x40")],
  },
  {
    ...{ alert: "UserGroupsWorkersRestart", when: "a worker exits every minute", at: "16m" },
    series: [plain("ugs_worker_exits_total", "0+1x20")],
    fires: { value: "15", labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsWorkersRestart", when: "a process restarts three times", at: "5m" },
    series: [plain("process_start_time_seconds", "100 200 300 400 400x20")],
    fires: { value: "3", labels: ["instance"] },
  },
  {
    ...{ alert: "UserGroupsWorkersRestart", when: "one worker has exited once", at: "16m" },
    series: [plain("ugs_worker_exits_total", "0x5 1x20"), plain("process_start_time_seconds", "100x5 200x20")],
  },
  {
    ...{ alert: "UserGroupsUnexpectedErrors", when: "one call has failed with INTERNAL", at: "5m" },
    series: [handled("Internal", "0 1x20"), handled("OK", "0+1000x20")],
    fires: {
      value: "1",
      labels: ["grpc_method"],
    },
  },
  {
    ...{ alert: "UserGroupsUnexpectedErrors", when: "calls fail because Redis is unavailable", at: "5m" },
    series: [handled("Internal", "0x20"), handled("Unavailable", "0+10x20")],
  },
  {
    ...{ alert: "UserGroupsAuthFailures", when: "AUTH_FAILURE_LIMIT refuses one call per second", at: "20m" },
    series: [limited("address", "0+60x30")],
    fires: {
      value: "1",
    },
  },
  {
    ...{ alert: "UserGroupsAuthFailures", when: "RATE_LIMIT refuses one call per second", at: "20m" },
    series: [limited("address", "0x30"), limited("api-token", "0+60x30")],
  },
  {
    ...{ alert: "UserGroupsRateLimited", when: "RATE_LIMIT refuses one call per second", at: "30m" },
    series: [limited("api-token", "0+60x40")],
    fires: { value: "1" },
  },
  {
    alert: "UserGroupsRateLimited",
    when: "RATE_LIMIT refused one burst of calls",
    at: "30m",
    series: [limited("api-token", "0 600x40")],
  },
  {
    ...{ alert: "UserGroupsAuditDropped", when: "ten audit events of updates were just dropped", at: "5m" },
    series: [plain("ugs_audit_dropped_total", "0 10x20")],
    fires: { value: "10" },
  },
  {
    ...{ alert: "UserGroupsAuditDropped", when: "audit events were dropped a long time ago", at: "5m" },
    series: [plain("ugs_audit_dropped_total", "10x20")],
  },
  {
    ...{ alert: "UserGroupsWebhookDelayed", when: "the event of a webhook waits for two hours", at: "30m" },
    series: [plain("ugs_webhook_undelivered_age_seconds", "7200x40")],
    fires: { value: "2h 0m 0s", labels: ["environment"] },
  },
  {
    ...{ alert: "UserGroupsWebhookDelayed", when: "the event of a webhook waits for half an hour", at: "30m" },
    series: [plain("ugs_webhook_undelivered_age_seconds", "1800x40")],
  },
  {
    ...{ alert: "UserGroupsWebhookDisabled", when: "a webhook was just disabled", at: "5m" },
    series: [plain("ugs_webhooks_disabled_total", "0 1x20")],
    fires: { value: "1" },
  },
  {
    ...{ alert: "UserGroupsWebhookDisabled", when: "a webhook was disabled a long time ago", at: "5m" },
    series: [plain("ugs_webhooks_disabled_total", "1x20")],
  },
  {
    ...{ alert: "UserGroupsApiTokenExpires", when: "an API token expires in six days", at: "20m" },
    series: [tokenExpiresIn(6 * DAY)],
    fires: {
      value: "5d 23h 40m 0s",
      labels: ["environment", "api_token_id"],
    },
  },
  {
    alert: "UserGroupsApiTokenExpires",
    when: "an API token expires in a month",
    at: "20m",
    series: [tokenExpiresIn(30 * DAY)],
  },
  {
    ...{ alert: "UserGroupsCertificateExpiresIn14Days", when: "a certificate expires in ten days", at: "20m" },
    series: [certificateExpiresIn(10 * DAY)],
    fires: { value: "9d 23h 40m 0s", labels: ["setting"] },
  },
  {
    alert: "UserGroupsCertificateExpiresIn14Days",
    when: "a certificate expires in a month",
    at: "20m",
    series: [certificateExpiresIn(30 * DAY)],
  },
  {
    ...{ alert: "UserGroupsCertificateExpiresIn2Days", when: "a certificate expires in a day", at: "5m" },
    series: [certificateExpiresIn(DAY)],
    fires: { value: "23h 55m 0s", labels: ["setting"] },
  },
  {
    alert: "UserGroupsCertificateExpiresIn2Days",
    when: "a certificate expires in ten days",
    at: "5m",
    series: [certificateExpiresIn(10 * DAY)],
  },
  {
    ...{ alert: "UserGroupsConfigReloadFailed", when: "a changed file stays invalid", at: "10m" },
    series: [plain("ugs_config_last_reload_successful", "0x20")],
    fires: { labels: ["instance", "setting"] },
  },
  {
    ...{
      alert: "UserGroupsConfigReloadFailed",
      when: "a reload fails because related files change one after another",
      at: "10m",
    },
    series: [plain("ugs_config_last_reload_successful", "0x2 1x20")],
  },
  {
    ...{
      alert: "UserGroupsTokenKeyMissing",
      when: "a worker lacks the key with which another worker encrypts",
      at: "1m",
    },
    series: [holding("k2", "encrypt"), holding("k1", "decrypt"), holding("k1", "encrypt"), plain("ugs_workers", "2x5")],
    fires: { labels: ["key_id"] },
  },
  {
    ...{ alert: "UserGroupsTokenKeyMissing", when: "every worker has both keys", at: "1m" },
    series: [
      ...[holding("k1", "encrypt"), holding("k2", "encrypt"), holding("k1", "decrypt"), holding("k2", "decrypt")],
      plain("ugs_workers", "2x5"),
    ],
  },
  {
    ...{ alert: "UserGroupsTokenKeysMixed", when: "workers have encrypted with two keys for an hour", at: "75m" },
    series: [holding("k1", "encrypt"), holding("k2", "encrypt")],
    fires: { value: "2" },
  },
  {
    alert: "UserGroupsTokenKeysMixed",
    when: "all workers encrypt with one key",
    at: "75m",
    series: [holding("k1", "encrypt")],
  },
  {
    ...{ alert: "UserGroupsSpansLost", when: "the trace collector stays unavailable", at: "25m" },
    series: [lost("export", "0+120x40"), lost("rate", "0x40")],
    fires: { value: "2", labels: ["cause"] },
  },
  {
    alert: "UserGroupsSpansLost",
    when: "the trace collector was unavailable for one minute",
    at: "25m",
    series: [lost("export", "0x8 300x40")],
  },
];
