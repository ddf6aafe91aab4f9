import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { onPath, orLeaveOut } from "@user-group-service/testing/on-path";
import { forSuite, newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { beforeAll, describe, expect, inject, it } from "vitest";
import { Role } from "../../gen/usergroup/admin/v1/api_token_pb.ts";
import { WebhookState } from "../../gen/usergroup/admin/v1/webhook_pb.ts";
import { ApiEnvironmentTag } from "../../gen/usergroup/v1/user_group_pb.ts";
import { ADMIN_ENV, ADMIN_TOKEN, adminOf, customerOf } from "../support/admin.ts";
import { newServer, suiteServer } from "../support/opened.ts";
import { failureOf } from "../support/rpc.ts";

const PACKAGE = join(ROOT, "packages/terraform-provider");
const README = readFileSync(join(PACKAGE, "README.md"), "utf8");
const run = promisify(execFile);
const hasGo = orLeaveOut("go", "the Terraform provider is") !== undefined;
const terraform = onPath("tofu") ?? orLeaveOut("terraform", "the tests of the Terraform provider are");

const certificates = inject("certificates");

/** The block `terraform` in the README. The block contains the name and the source of the provider. */
const REQUIRED = /^terraform \{\n.*?^\}\n/ms.exec(README)?.[0] ?? "";

function codeWith(text: string): string {
  const found = [...README.matchAll(/^```\w+\n(.*?)^```$/gms)].filter(([, code]) => code?.includes(text));
  expect(found).toHaveLength(1);
  return found[0]?.[1] ?? "";
}

describe.skipIf(!hasGo)("the Terraform provider", () => {
  it("passes gofmt, go vet and go mod tidy, and contains the license", async () => {
    expect((await run("gofmt", ["-l", "."], { cwd: PACKAGE })).stdout).toBe("");
    await run("go", ["vet", "./..."], { cwd: PACKAGE });
    await run("cmp", ["LICENSE", join(PACKAGE, "LICENSE")], { cwd: ROOT });
    const made = newFolder();
    for (const name of ["terraform-provider", "client-go"])
      cpSync(join(ROOT, "packages", name), join(made, name), { recursive: true });
    const client = /^replace (\S+) => /m.exec(readFileSync(join(PACKAGE, "go.work"), "utf8"))?.[1];
    // The published go.mod has no `replace` directive, because `go install` refuses it.
    const tidy = `go mod edit -replace=${client}=../client-go && go mod tidy && go mod edit -dropreplace=${client}
      diff go.mod ${PACKAGE}/go.mod && diff go.sum ${PACKAGE}/go.sum`;
    await run("sh", ["-ec", tidy], { cwd: join(made, "terraform-provider"), env: { ...process.env, GOWORK: "off" } });
  });
});

describe.skipIf(!hasGo || terraform === undefined)("terraform", () => {
  const server = suiteServer({ env: ADMIN_ENV });
  const home = forSuite(
    () => ({ path: mkdtempSync(join(tmpdir(), "ugs-test-")) }),
    ({ path }) => rmSync(path, { recursive: true }),
  );

  beforeAll(async () => {
    const install = codeWith("go build").replace("~/", `${home.path}/`);
    await run("sh", ["-ec", install], { cwd: PACKAGE });
  });

  /** Creates a folder with a configuration, and runs `terraform init` in the folder. */
  async function newWorkspace(configuration: string, variables: { readonly [name: string]: string } = {}) {
    const folder = newFolder();
    const env = {
      ...{ PATH: process.env["PATH"], HOME: home.path, CHECKPOINT_DISABLE: "1", TF_IN_AUTOMATION: "1" },
      ...{ UGS_URL: server.url, UGS_TOKEN: ADMIN_TOKEN, ...variables },
    };
    const workspace = {
      folder,
      write: (text: string) => writeFileSync(join(folder, "main.tf"), text),
      read: (name: string) => readFileSync(join(folder, name), "utf8"),
      async run(...args: string[]): Promise<{ readonly code: number; readonly output: string }> {
        const options = { cwd: folder, env, maxBuffer: 2 ** 26 };
        const wide = /^(plan|apply|destroy|import)$/.test(args[0] ?? "") ? ["-input=false", "-no-color"] : [];
        const [command = "", ...others] = args;
        return run(terraform ?? "", [command, ...wide, ...others], options).then(
          ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
          (error: { code: number; stdout: string; stderr: string }) => ({
            code: error.code,
            // Terraform draws a frame around errors, and wraps their lines.
            output: (error.stdout + error.stderr).replaceAll(/[╷│╵]/g, "").replaceAll(/\s+/g, " "),
          }),
        );
      },
      async apply(...args: string[]): Promise<string> {
        const { code, output } = await workspace.run("apply", "-auto-approve", ...args);
        expect(code, output).toBe(0);
        return output;
      },
      /** Plans, and returns the exit code. The code is 0 if the plan has no changes, and 2 if it has changes. */
      async plan(): Promise<number> {
        const { code, output } = await workspace.run("plan", "-detailed-exitcode", "-out=plan");
        if (code === 1) expect.fail(output);
        return code;
      },
      async state(address: string): Promise<{ readonly [name: string]: unknown }> {
        const { output } = await workspace.run("show", "-json");
        const { values } = JSON.parse(output) as {
          values: { root_module: { resources: { address: string; values: { [name: string]: unknown } }[] } };
        };
        return values.root_module.resources.find((each) => each.address === address)?.values ?? {};
      },
    };
    workspace.write(configuration);
    const { code, output } = await workspace.run("init", "-no-color");
    expect(code, output).toBe(0);
    return workspace;
  }

  it("creates, rotates and destroys the resources of the README, without a secret in a state or plan", async () => {
    const admin = adminOf(server.url);
    const environment = { name: "shop", tag: ApiEnvironmentTag.CUSTOMER };
    const readme = codeWith('resource "ugs_environment"');
    const shop = await newWorkspace(readme);
    const printed = [await shop.apply()];
    expect(await shop.plan()).toBe(0);
    const first = shop.read("backend.token");
    const webhookSecret = shop.read("billing.secret");
    expect(webhookSecret).toMatch(/^whsec_/);
    expect(await adminOf(server.url, first).getCaller({})).toMatchObject({
      ...{ displayName: "shop back end", role: "manage", environment },
    });
    const { webhooks } = await admin.listWebhooks({ environment });
    expect(webhooks).toMatchObject([
      {
        ...{ displayName: "billing", url: "https://billing.example.com/hooks", state: WebhookState.ENABLED },
        eventTypes: ["user_group.created", "user_group.deleted"],
      },
    ]);

    // Updates each field, and rotates both secrets.
    const changed = readme
      .replace('"shop back end"', '"back end"\n  expire_time = "2099-01-31T00:00:00Z"')
      .replace(/(secret_version +=) 1/, "$1 2")
      .replace(/event_types .*/, "enabled = false\n  secret_version = 2")
      .replace('"billing"\n  url', '"invoices"\n  url');
    shop.write(changed);
    expect(await shop.plan()).toBe(2);
    printed.push(await shop.apply("plan"));
    expect(await shop.plan()).toBe(0);
    const second = shop.read("backend.token");
    const secondWebhookSecret = shop.read("billing.secret");
    expect(new Set([first, second, webhookSecret, secondWebhookSecret]).size).toBe(4);
    for (const token of [first, second])
      expect((await adminOf(server.url, token).getCaller({})).displayName).toBe("back end");
    const apiTokenId = (await shop.state("ugs_api_token.backend"))["id"] as string;
    const { apiTokens } = await admin.listApiTokens({ environment });
    expect(apiTokens.map(({ id, expireTime }) => [id, expireTime?.seconds])).toEqual([[apiTokenId, 4_073_500_800n]]);
    expect((await admin.listWebhooks({ environment })).webhooks).toMatchObject([
      { id: webhooks[0]?.id, displayName: "invoices", state: WebhookState.DISABLED, eventTypes: [] },
    ]);

    // Changes the objects outside of Terraform.
    await admin.revokeApiToken({ environment, apiTokenId });
    await admin.updateWebhook({ environment, webhookId: webhooks[0]?.id as string, enabled: true });
    expect(await shop.plan()).toBe(2);
    printed.push(await shop.apply("plan"));
    expect(await shop.plan()).toBe(0);
    const third = shop.read("backend.token");
    expect((await adminOf(server.url, third).getCaller({})).displayName).toBe("back end");
    expect((await admin.listWebhooks({ environment })).webhooks).toMatchObject([{ state: WebhookState.DISABLED }]);

    // The user replaces the destination of a secret, but does not request a new secret. Then the apply fails, and the
    // old secret stays in use.
    const lost = await shop.run("apply", "-auto-approve", "-replace=terraform_data.backend_token");
    expect(lost.code).toBe(1);
    expect(lost.output).toContain("SECRET: increase secret_version");
    expect(shop.read("backend.token")).toBe(third);
    shop.write(changed.replace(/(secret_version +=) 2/, "$1 3"));
    printed.push(lost.output, await shop.apply());
    const fourth = shop.read("backend.token");
    expect(fourth).not.toBe(third);
    expect((await adminOf(server.url, fourth).getCaller({})).displayName).toBe("back end");

    const secrets = [first, second, third, fourth, webhookSecret, secondWebhookSecret, ADMIN_TOKEN];
    const kept = [...printed, (await shop.run("show", "-json", "plan")).output];
    for (const entry of readdirSync(shop.folder, { withFileTypes: true, recursive: true }))
      if (entry.isFile() && !/^(backend\.token|billing\.secret)$/.test(entry.name))
        kept.push(readFileSync(join(entry.parentPath, entry.name), "latin1"));
    // The files include the state, its backup and the plan.
    expect(kept.length).toBeGreaterThanOrEqual(7);
    for (const text of kept) for (const secret of secrets) expect(text.includes(secret)).toBe(false);

    // An environment with groups is deleted only with force_destroy.
    await admin.importUserGroups({ environment, userGroups: [{ providedId: "acme" }] });
    const refused = await shop.run("destroy", "-auto-approve");
    expect(refused.code).toBe(1);
    expect(refused.output).toContain(
      "set force_destroy = true, run terraform apply, and destroy the environment again",
    );
    expect((await admin.lookupUserGroup({ environment, userGroupId: "acme" })).userGroup?.providedId).toBe("acme");
    shop.write(
      changed.replace(/(secret_version +=) 2/, "$1 3").replace('"Customer"', '"Customer"\n  force_destroy = true'),
    );
    await shop.apply();
    const { code, output } = await shop.run("destroy", "-auto-approve");
    expect(code, output).toBe(0);
    expect(await failureOf(admin.getEnvironment({ environment }))).toMatchObject({ reason: "ENVIRONMENT_NOT_FOUND" });
    expect(await failureOf(adminOf(server.url, fourth).getCaller({}))).toMatchObject({ code: "Unauthenticated" });
  });

  it("imports existing objects without changes, and reads a user group without its token", async () => {
    const admin = adminOf(server.url);
    const environment = { name: "old", tag: ApiEnvironmentTag.TESTING };
    await admin.createEnvironment({ environment });
    const made = await admin.createApiToken({ environment, displayName: "job", role: Role.ADMIN });
    const hook = await admin.createWebhook({ environment, displayName: "hook", url: "https://hooks.example.com/" });
    const group = { providedId: "acme", name: "Acme", mapping: { s: "d" }, properties: { plan: "gold" } };
    await admin.importUserGroups({ environment, userGroups: [group] });
    await admin.suspendUserGroup({ environment, userGroupId: "acme", reason: "unpaid" });
    // An API token belongs to one environment. So if the provider uses an API token, an import needs only the id of the
    // object.
    const old = await newWorkspace(
      `${REQUIRED}
      resource "ugs_api_token" "job" {
        display_name = "job"
        role = "admin"
        expire_time = "never"
      }
      resource "ugs_webhook" "hook" {
        display_name = "hook"
        url = "https://hooks.example.com/"
      }
      data "ugs_user_group" "acme" { user_group_id = "acme" }`,
      { UGS_TOKEN: made.token },
    );
    const imports = { "ugs_api_token.job": made.apiToken?.id, "ugs_webhook.hook": `old/Testing/${hook.webhook?.id}` };
    for (const [address, id] of Object.entries(imports)) {
      const { code, output } = await old.run("import", address, id as string);
      expect(code, output).toBe(0);
    }
    await old.apply();
    expect(await old.plan()).toBe(0);
    expect(await old.state("ugs_api_token.job")).toMatchObject({ id: made.apiToken?.id, environment: "old/Testing" });
    expect(await old.state("data.ugs_user_group.acme")).toEqual({
      ...{ user_group_id: "acme", environment: null, name: "Acme", mapping: { s: "d" }, properties: '{"plan":"gold"}' },
      ...{ team_id: expect.any(Number), create_time: expect.any(String), update_time: expect.any(String) },
      ...{ expire_time: null, suspended: true, suspension_reason: "unpaid" },
    });
    expect((await adminOf(server.url, made.token).getCaller({})).apiTokenId).toBe(made.apiToken?.id);
    expect((await admin.listApiTokens({ environment })).apiTokens).toHaveLength(1);

    old.write(old.read("main.tf").replace('"ugs_webhook" "hook"', '"ugs_webhook" "other"'));
    const missing = await old.run("import", "ugs_webhook.other", "wh_unknown");
    expect(missing.output).toContain("Cannot import non-existent remote object");
    const invalid = await old.run("import", "ugs_webhook.other", "old/Other/wh_unknown");
    expect(invalid.output).toContain("Use ID or ENVIRONMENT/ID, such as dev/ID or dev/Customer/ID.");
    const whole = await newWorkspace(
      `${REQUIRED}
      resource "ugs_environment" "old" {
        name = "old"
        tag = "Testing"
      }`,
    );
    expect((await whole.run("import", "ugs_environment.old", "old/Testing")).code).toBe(0);
    expect(await whole.plan()).toBe(0);
    await whole.run("state", "rm", "ugs_environment.old");
    const unknown = await whole.run("import", "ugs_environment.old", "missing");
    expect(unknown.output).toContain("Cannot import non-existent remote object");
  });

  it("prints the next step after a rejected call, a missing setting and an unknown CA", async () => {
    const environment = customerOf(server);
    const token = `${REQUIRED}
      resource "ugs_api_token" "job" {
        display_name = "job"
        role = "read"
      }`;
    const refusal = async (configuration: string, variables: { readonly [name: string]: string }) => {
      const { code, output } = await (await newWorkspace(configuration, variables)).run("apply", "-auto-approve");
      expect(code, output).toBe(1);
      return output;
    };
    const wrong = "ugk_never-created-0123456789";
    const denied = await refusal(token, { UGS_TOKEN: wrong });
    expect(denied).toMatch(/Check that the token of the provider (belongs to this service|was copied completely)/);
    expect(denied).not.toContain(wrong);
    expect(denied).toContain("Request id, which the log of the service contains:");
    expect(await refusal(token, {})).toContain("Set environment, such as dev/Customer");
    expect(await refusal(token, { UGS_URL: "" })).toContain("Set url, or the variable UGS_URL");
    expect(await refusal(token, { UGS_TOKEN: "" })).toContain("Set the variable UGS_TOKEN or UGS_TOKEN_FILE");
    const unreachable = { UGS_URL: "http://127.0.0.1:1", UGS_TIMEOUT: "1s" };
    expect(await refusal(token, unreachable)).toContain("Check url or UGS_URL, and that the service runs.");
    const reader = await adminOf(server.url).createApiToken({ environment, displayName: "r", role: Role.READ });
    expect(await refusal(token, { UGS_TOKEN: reader.token })).toContain("Use an API token of role admin");
    expect(await refusal(token.replace('"read"', '"read"\n expire_time = "tomorrow"'), {})).toContain(
      "expire_time must be a time in UTC, such as 2027-01-31T00:00:00Z, or never",
    );

    const secure = await newServer({ tls: certificates, env: ADMIN_ENV });
    const configuration = `${REQUIRED}
      resource "ugs_environment" "secure" { name = "secure" }`;
    expect(await refusal(configuration, { UGS_URL: secure.url })).toContain("set ca_file or UGS_CA_FILE");
    const ca = { UGS_URL: secure.url, UGS_CA_FILE: certificates.ca.certFile };
    const trusting = await newWorkspace(configuration, ca);
    await trusting.apply();
    const again = await newWorkspace(configuration, ca);
    const { output } = await again.run("apply", "-auto-approve");
    expect(output).toContain("terraform import");
  });
});
