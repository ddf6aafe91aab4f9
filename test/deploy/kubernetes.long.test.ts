import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { onPath, orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { loadConfig } from "../../src/config/config.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { deployPrograms } from "../support/python.ts";
import { TOKEN_KEYS } from "../support/server.ts";

const kubectl = onPath("kubectl");
const kustomize = kubectl ?? orLeaveOut("kustomize", "the tests of deploy/kubernetes/ are");
const programs = deployPrograms();

/** Contents of the secret, by their names in docs/operations/install.md. */
const SECRETS: { readonly [name: string]: string } = {
  "token-keys": TOKEN_KEYS,
  "admin-token": "0123456789abcdef",
  "redis-password": "hunter2",
  "redis-sentinel-password": "hunter3",
};

type Tree = { readonly [name: string]: Tree } & readonly Tree[] & string & number;

/** The resources of an overlay, by kind and name. @param folder folder of the overlay */
function resourcesOf(
  overlay: string,
  folder = join(ROOT, "deploy/kubernetes"),
): { yaml: string; resources: { [name: string]: Tree } } {
  const yaml = execFileSync(kustomize ?? "", [kubectl ? "kustomize" : "build", join(folder, "overlays", overlay)]);
  const all = parseAllDocuments(yaml.toString()).map((document) => document.toJS() as Tree);
  const entries = all.map((each) => [`${each["kind"]} ${each["metadata"]?.["name"]}`, each]);
  return { yaml: yaml.toString(), resources: Object.fromEntries(entries) as { [name: string]: Tree } };
}

describe.skipIf(kustomize === undefined || programs === undefined).each(["single", "sentinel", "cluster"])(
  "the overlay %s",
  (overlay) => {
    const { yaml, resources } = kustomize && programs ? resourcesOf(overlay) : { yaml: "", resources: {} };
    const deployment = resources["Deployment user-group-service"] as Tree;
    const pod = deployment?.["spec"]?.["template"]?.["spec"] as Tree;
    const container = pod?.["containers"]?.[0] as Tree;
    const configMap = Object.values(resources).find(({ kind }) => kind === ("ConfigMap" as Tree)) as Tree;
    const env = (configMap?.["data"] ?? {}) as unknown as { [name: string]: string };

    it("is valid by the Kubernetes schemas", () => {
      const file = join(newFolder(), "resources.yaml");
      writeFileSync(file, yaml);
      const { status, stdout, stderr } = spawnSync(join(programs ?? "", "kubernetes-validate"), ["--strict", file]);
      expect([status, `${stdout}${stderr}`.match(/passed for resource/g)?.length]).toEqual([0, 6]);
    });

    it("has settings that the service accepts, with the files of the secret", async () => {
      expect(container["envFrom"]).toEqual([{ configMapRef: { name: configMap["metadata"]?.["name"] } }]);
      const folder = String(container["volumeMounts"]?.[0]?.["mountPath"]);
      const here = newFolder();
      const settings = Object.entries(env).map(([name, value]) => {
        expect(Object.keys(SETTINGS)).toContain(name);
        if (!name.endsWith("_FILE")) return [name, value];
        expect(value).toBe(join(folder, basename(value)));
        mkdirSync(here, { recursive: true });
        writeFileSync(join(here, basename(value)), `${SECRETS[basename(value)] ?? expect.fail(value)}\n`);
        return [name, join(here, basename(value))];
      });
      const config = await loadConfig(Object.fromEntries(settings));
      expect(config.misspelled).toEqual([]);
      expect(config.metricsPort).toBe(9090);
      // preStop, then the calls in flight, then the time that the supervisor adds.
      const preStopMs = Number(container["lifecycle"]?.["preStop"]?.["sleep"]?.["seconds"]) * 1000;
      expect(Number(pod["terminationGracePeriodSeconds"]) * 1000).toBeGreaterThan(
        preStopMs + config.shutdownTimeoutMs + 5000,
      );
    });

    it("probes the operator endpoints, and has the ports of the settings", () => {
      const ports = { calls: 8080, metrics: Number(env["METRICS_PORT"]) };
      const named = Object.entries(ports).map(([name, containerPort]) => ({ name, containerPort }));
      expect(container["ports"]).toEqual(named);
      const paths = { startupProbe: "/healthz", readinessProbe: "/readyz", livenessProbe: "/healthz" };
      for (const [probe, path] of Object.entries(paths)) {
        expect(container[probe]?.["httpGet"]).toEqual({ path, port: "metrics" });
      }
      for (const name of ["user-group-service", "user-group-service-pods"]) {
        expect(resources[`Service ${name}`]?.["spec"]?.["ports"]).toEqual([
          { name: "calls", port: 8080, targetPort: "calls" },
        ]);
      }
    });

    it("selects only its own pods everywhere", () => {
      const labels = { "app.kubernetes.io/name": "user-group-service" };
      expect(deployment["spec"]?.["template"]?.["metadata"]?.["labels"]).toEqual(labels);
      const spec = (name: string) => resources[name]?.["spec"] as Tree;
      expect(deployment["spec"]?.["selector"]).toEqual({ matchLabels: labels });
      expect(spec("PodDisruptionBudget user-group-service")["selector"]).toEqual({ matchLabels: labels });
      expect(spec("NetworkPolicy user-group-service")["podSelector"]).toEqual({ matchLabels: labels });
      for (const name of ["user-group-service", "user-group-service-pods"]) {
        expect(spec(`Service ${name}`)["selector"]).toEqual(labels);
      }
      for (const { labelSelector } of pod["topologySpreadConstraints"] as unknown as { labelSelector: unknown }[]) {
        expect(labelSelector).toEqual({ matchLabels: labels });
      }
    });

    it("lets the service reach its Redis", () => {
      const named = [...(env["REDIS_URL"] ?? "").matchAll(/:(\d+)/g)].map(([, port]) => Number(port));
      const egress = resources["NetworkPolicy user-group-service"]?.["spec"]?.["egress"] as unknown as {
        ports: { port: number }[];
      }[];
      const open = egress.flatMap(({ ports }) => ports.map(({ port }) => port));
      expect(open).toEqual(expect.arrayContaining([6379, ...named]));
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
  },
);

describe.skipIf(kustomize === undefined || programs === undefined)("the component collector", () => {
  it("lets the service reach its collector, and changes nothing else", () => {
    const folder = newFolder();
    cpSync(join(ROOT, "deploy/kubernetes"), folder, { recursive: true });
    const file = join(folder, "overlays/single/kustomization.yaml");
    const before = resourcesOf("single", folder).resources;
    writeFileSync(file, `${readFileSync(file, "utf8")}components:\n  - ../../components/collector\n`);
    const { yaml, resources } = resourcesOf("single", folder);
    const written = join(newFolder(), "resources.yaml");
    writeFileSync(written, yaml);
    expect(spawnSync(join(programs ?? "", "kubernetes-validate"), ["--strict", written]).status).toBe(0);
    const settings = (all: typeof before) =>
      Object.values(all).find(({ kind }) => kind === ("ConfigMap" as Tree))?.["data"] as unknown as object;
    const OTEL_EXPORTER_OTLP_ENDPOINT = "http://collector.observability.svc:4318";
    expect(settings(resources)).toEqual({ ...settings(before), OTEL_EXPORTER_OTLP_ENDPOINT });
    const egress = (all: typeof before) =>
      all["NetworkPolicy user-group-service"]?.["spec"]?.["egress"] as unknown as object[];
    const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": "observability" } };
    expect(egress(resources)).toEqual([
      ...egress(before),
      { to: [{ namespaceSelector }], ports: [{ port: Number(new URL(OTEL_EXPORTER_OTLP_ENDPOINT).port) }] },
    ]);
    expect(Object.keys(resources).length).toBe(Object.keys(before).length);
  });
});
