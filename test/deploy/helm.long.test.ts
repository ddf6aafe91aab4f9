import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { onPath, orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { describe, expect, inject, it } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { loadConfig } from "../../src/config/config.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { deployPrograms } from "../support/python.ts";
import { TOKEN_KEYS } from "../support/server.ts";

const helm = orLeaveOut("helm", "the tests of deploy/helm/ are");
const promtool = onPath("promtool");
const programs = deployPrograms();
const CHART = join(ROOT, "deploy/helm");

/** The kinds of Kubernetes resources in every rendering. */
const ALWAYS = ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service"];

/** Each example, and the kinds of resources that it has in addition to `ALWAYS`. */
const EXAMPLES: readonly (readonly [string, readonly string[]])[] = [
  ["single", []],
  ["sentinel", []],
  ["cluster", []],
  ["production", ["HorizontalPodAutoscaler", "PrometheusRule", "ServiceMonitor"]],
];

/** Returns the contents of the mounted secret files, by their names in docs/operations/install.md. */
const secretFiles = (): { readonly [name: string]: string } => ({
  "token-keys": TOKEN_KEYS,
  "admin-token": "0123456789abcdef",
  "redis-password": "hunter2",
  "redis-sentinel-password": "hunter3",
  "ca.crt": inject("certificates").ca.cert,
  "tls.crt": inject("certificates").server.cert,
  "tls.key": inject("certificates").server.key,
});

type Tree = { readonly [name: string]: Tree } & readonly Tree[] & string & number;

function render(...args: string[]) {
  // If a build of Helm has no version, it assumes an old version of Kubernetes. So pass the version of Kubernetes.
  const all = ["template", "ugs", CHART, "--kube-version", "1.37.0", ...args];
  const { status, stdout, stderr } = spawnSync(helm ?? "", all, { encoding: "utf8" });
  return { status, stdout, stderr };
}

function resourcesOf(example: string): Tree[] {
  const { status, stdout, stderr } = render("--values", join(CHART, "examples", `${example}.yaml`));
  expect([status, stderr]).toEqual([0, expect.not.stringContaining("Error")]);
  return parseAllDocuments(stdout).map((document) => document.toJS() as Tree);
}

const isOfOperator = ({ apiVersion }: Tree) => apiVersion === ("monitoring.coreos.com/v1" as Tree);

describe.skipIf(helm === undefined)("the chart", () => {
  it("passes helm lint, and has the version of the service", () => {
    for (const [example] of EXAMPLES) {
      const values = join(CHART, "examples", `${example}.yaml`);
      const args = ["lint", "--strict", "--kube-version", "1.37.0", CHART, "--values", values];
      const { status, stdout } = spawnSync(helm ?? "", args, { encoding: "utf8" });
      expect([status, stdout]).toEqual([0, expect.stringContaining("0 chart(s) failed")]);
    }
    const { version } = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as { version: string };
    expect(parse(readFileSync(join(CHART, "Chart.yaml"), "utf8"))).toMatchObject({ version, appVersion: version });
  });

  it("contains the alert rules in the package, so that the package installs without the repository", () => {
    const folder = newFolder();
    execFileSync(helm ?? "", ["package", CHART, "--destination", folder], { stdio: "pipe" });
    const files = execFileSync("sh", ["-c", "tar xzf *.tgz && find user-group-service -type f"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(files).not.toContain("examples/");
    expect(readFileSync(join(folder, "user-group-service/files/alerts.yaml"), "utf8")).toBe(
      readFileSync(`${ROOT}/deploy/helm/files/alerts.yaml`, "utf8"),
    );
  });

  it.each([
    ["an unknown value", "replica=1", /'replica' not allowed/],
    ["an unknown setting", "settings.PUBLIC_URI=x", /invalid propertyName 'PUBLIC_URI'.*\n.*'PUBLIC_URL'/],
    ["a credential in a setting", "settings.ADMIN_TOKEN=0123456789abcdef", /invalid propertyName 'ADMIN_TOKEN'/],
    ["a setting that only the chart sets", "settings.METRICS_PORT=1", /invalid propertyName 'METRICS_PORT'/],
    ["an unknown topology", "redis.topology=Sentinel", /'single', 'sentinel', 'cluster'/],
    ["an address without a port", "redis.addresses={redis}", /\/redis\/addresses\/0/],
    ["a URL as an address", "redis.addresses={redis://redis:6379}", /\/redis\/addresses\/0/],
    ["two single nodes", "redis.addresses={a:1,b:1}", /maxItems/],
    ["client certificates without TLS", "tls.clientCertificates=true", /tls.clientCertificates needs tls.secretName/],
    [
      "a maximum number of pods below the minimum",
      "autoscaling.enabled=true,autoscaling.maxReplicas=2",
      /must not exceed autoscaling.maxReplicas/,
    ],
    ["alerts without runbooks", "prometheusRule.enabled=true", /docsUrl is required/],
    [
      "a queue length without the recording rule",
      "autoscaling.enabled=true,autoscaling.queueLength=1",
      /needs prometheusRule.enabled/,
    ],
  ])("refuses %s, and the error names the value", (_what, value, message) => {
    expect(render("--set", value)).toMatchObject({ status: 1, stderr: expect.stringMatching(message) });
  });

  it("omits a resource that is turned off", () => {
    const { stdout } = render("--set", "networkPolicy.enabled=false");
    expect(stdout).not.toContain("kind: NetworkPolicy");
  });

  it("scales by CPU and by the number of waiting calls", () => {
    const resources = resourcesOf("production");
    const autoscaler = resources.find(({ kind }) => kind === ("HorizontalPodAutoscaler" as Tree));
    const metrics = autoscaler?.["spec"]?.["metrics"] as unknown as { type: string; pods?: { metric: object } }[];
    expect(metrics.map(({ type }) => type)).toEqual(["Resource", "Pods"]);
    expect(metrics[1]?.pods?.metric).toEqual({ name: "ugs_queue_length" });
    expect(JSON.stringify(resources)).toContain('"record":"ugs_queue_length"');
    const deployment = resources.find(({ kind }) => kind === ("Deployment" as Tree));
    expect(deployment?.["spec"]).not.toHaveProperty("replicas");
  });

  it("has alert rules that Prometheus accepts, with the URLs of runbooks", () => {
    const rule = resourcesOf("production").find(({ kind }) => kind === ("PrometheusRule" as Tree));
    const file = join(newFolder(), "rules.yaml");
    writeFileSync(file, stringify(rule?.["spec"]));
    if (promtool === undefined) orLeaveOut("promtool", "the check of the rules is");
    else execFileSync(promtool, ["check", "rules", file], { stdio: "pipe" });
    const written = parse(readFileSync(file, "utf8")) as {
      groups: { rules: { annotations?: { runbook_url: string } }[] }[];
    };
    const urls = written.groups.flatMap(({ rules }) =>
      rules.flatMap(({ annotations }) => annotations?.runbook_url ?? []),
    );
    expect(urls.length).toBeGreaterThan(20);
    for (const url of urls)
      expect(url).toMatch(/^https:\/\/git\.example\.com\/user-group-service\/docs\/operations\/incidents\.md#\w+$/);
  });

  it("lets Prometheus scrape every pod, and gives the metrics the job name that the alerts use", () => {
    const resources = resourcesOf("production");
    const monitor = resources.find(({ kind }) => kind === ("ServiceMonitor" as Tree));
    expect(monitor?.["spec"]).toEqual({
      jobLabel: "app.kubernetes.io/name",
      selector: { matchLabels: expect.any(Object) },
      endpoints: [{ port: "metrics", interval: "15s" }],
    });
    const wanted = Object.entries(monitor?.["spec"]?.["selector"]?.["matchLabels"] as unknown as object);
    const services = resources.filter(({ kind, metadata }) => {
      const labels = (metadata?.["labels"] ?? {}) as { readonly [name: string]: unknown };
      return kind === ("Service" as Tree) && wanted.every(([name, value]) => labels[name] === value);
    });
    expect(services.map(({ metadata }) => metadata?.["name"])).toEqual(["ugs-user-group-service-pods"]);
    expect(services[0]?.["metadata"]?.["labels"]?.["app.kubernetes.io/name"]).toBe("user-group-service");
    const ports = services[0]?.["spec"]?.["ports"] as unknown as { name: string }[];
    expect(ports.map(({ name }) => name)).toContain("metrics");
  });
});

describe.skipIf(helm === undefined || programs === undefined).each(EXAMPLES)("the example %s", (example, further) => {
  const all = helm && programs ? resourcesOf(example) : [];
  const resources = Object.fromEntries(all.map((each) => [`${each["kind"]} ${each["metadata"]?.["name"]}`, each])) as {
    [name: string]: Tree;
  };
  const deployment = resources["Deployment ugs-user-group-service"] as Tree;
  const pod = deployment?.["spec"]?.["template"]?.["spec"] as Tree;
  const container = pod?.["containers"]?.[0] as Tree;
  const env = (resources["ConfigMap ugs-user-group-service"]?.["data"] ?? {}) as unknown as { [name: string]: string };

  it("conforms to the Kubernetes schemas", () => {
    expect(all.map(({ kind }) => String(kind)).sort()).toEqual([...ALWAYS, ...further].sort());
    const file = join(newFolder(), "resources.yaml");
    const own = all.filter((each) => !isOfOperator(each));
    writeFileSync(file, own.map((each) => stringify(each)).join("---\n"));
    const { status, stdout, stderr } = spawnSync(join(programs ?? "", "kubernetes-validate"), ["--strict", file]);
    expect([status, `${stdout}${stderr}`.match(/passed for resource/g)?.length]).toEqual([0, own.length]);
  });

  it("has settings that the service accepts, and mounts the files of the secrets", async () => {
    expect(container["envFrom"]).toEqual([{ configMapRef: { name: "ugs-user-group-service" } }]);
    const mounts = container["volumeMounts"] as unknown as { mountPath: string; name: string }[];
    const volumes = pod["volumes"] as unknown as { name: string; secret: { secretName: string } }[];
    expect(mounts.map(({ name }) => name)).toEqual(volumes.map(({ name }) => name));
    const here = newFolder();
    const settings = Object.entries(env).map(([name, value]) => {
      expect(Object.keys(SETTINGS)).toContain(name);
      if (!name.endsWith("_FILE")) return [name, value];
      expect(mounts.map(({ mountPath }) => join(mountPath, basename(value)))).toContain(value);
      mkdirSync(here, { recursive: true });
      writeFileSync(join(here, basename(value)), `${secretFiles()[basename(value)] ?? expect.fail(value)}\n`);
      return [name, join(here, basename(value))];
    });
    const config = await loadConfig(Object.fromEntries(settings));
    expect(config.misspelled).toEqual([]);
    expect(config.metricsPort).toBe(9090);
    // The grace period must be longer than preStop plus the time limit for calls in flight. The supervisor may need 5 s
    // in addition.
    const preStopMs = Number(container["lifecycle"]?.["preStop"]?.["sleep"]?.["seconds"]) * 1000;
    expect(Number(pod["terminationGracePeriodSeconds"]) * 1000).toBeGreaterThan(
      preStopMs + config.shutdownTimeoutMs + 5000,
    );
  });

  it("sends probes to /healthz and /readyz, and exposes the ports for calls and metrics", () => {
    const ports = { calls: 8080, metrics: Number(env["METRICS_PORT"]) };
    const named = Object.entries(ports).map(([name, containerPort]) => ({ name, containerPort }));
    expect(container["ports"]).toEqual(named);
    const paths = { startupProbe: "/healthz", readinessProbe: "/readyz", livenessProbe: "/healthz" };
    for (const [probe, path] of Object.entries(paths)) {
      expect(container[probe]?.["httpGet"]).toEqual({ path, port: "metrics" });
    }
    for (const name of ["ugs-user-group-service", "ugs-user-group-service-pods"]) {
      expect(resources[`Service ${name}`]?.["spec"]?.["ports"]?.[0]).toEqual({
        name: "calls",
        port: 8080,
        targetPort: "calls",
      });
    }
  });

  it("selects only the pods of the release in every resource", () => {
    const labels = { "app.kubernetes.io/name": "user-group-service", "app.kubernetes.io/instance": "ugs" };
    expect(deployment["spec"]?.["template"]?.["metadata"]?.["labels"]).toMatchObject(labels);
    const spec = (name: string) => resources[name]?.["spec"] as Tree;
    expect(deployment["spec"]?.["selector"]).toEqual({ matchLabels: labels });
    expect(spec("PodDisruptionBudget ugs-user-group-service")["selector"]).toEqual({ matchLabels: labels });
    expect(spec("NetworkPolicy ugs-user-group-service")["podSelector"]).toEqual({ matchLabels: labels });
    for (const name of ["ugs-user-group-service", "ugs-user-group-service-pods"]) {
      expect(spec(`Service ${name}`)["selector"]).toEqual(labels);
    }
    const spreads = pod["topologySpreadConstraints"] as unknown as { labelSelector: unknown }[];
    expect(spreads.length).toBe(2);
    for (const { labelSelector } of spreads) expect(labelSelector).toEqual({ matchLabels: labels });
  });

  it("lets the service reach its Redis, its collector and webhooks", () => {
    const named = [...(env["REDIS_URL"] ?? "").matchAll(/:(\d+)/g)].map(([, port]) => Number(port));
    const egress = resources["NetworkPolicy ugs-user-group-service"]?.["spec"]?.["egress"] as unknown as {
      ports: { port: number }[];
    }[];
    const collector = env["OTEL_EXPORTER_OTLP_ENDPOINT"];
    if (collector !== undefined) named.push(Number(new URL(collector).port));
    const open = egress.flatMap(({ ports }) => ports.map(({ port }) => port));
    expect(open).toEqual(expect.arrayContaining([53, 443, ...named]));
  });

  it("gives the pod no privileges, and loses no calls during a rollout", () => {
    expect(container["securityContext"]).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(pod["securityContext"]).toMatchObject({ runAsNonRoot: true, runAsUser: 65532 });
    expect(pod["automountServiceAccountToken"]).toBe(false);
    expect(deployment["spec"]?.["strategy"]?.["rollingUpdate"]).toEqual({ maxSurge: 1, maxUnavailable: 0 });
  });
});
