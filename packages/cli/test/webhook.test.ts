import { readFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ADMIN_ENV } from "../../../test/support/admin.ts";
import { suiteServer } from "../../../test/support/opened.ts";
import { newReceiver, verify } from "../../../test/support/webhooks.ts";
import { jsonLinesIn, TIME, usersOf } from "./support/ugs.ts";

describe("ugs webhook", () => {
  const server = suiteServer({ env: { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" } });
  const { root, newEnvironment } = usersOf(server);

  it("creates, changes and tests a webhook, delivers its events again, and deletes the webhook", async () => {
    const { name, admin } = await newEnvironment();
    const receiver = await newReceiver();
    expect(await admin("webhook list")).toMatchObject({ code: 0, stderr: "There are no webhooks.\n" });
    const created = await admin(`webhook create ${receiver.url("/a")} --name billing`);
    const secret = created.stdout.trimEnd();
    expect(secret).toMatch(/^whsec_[\w+/]{43}=$/);
    expect(created.stderr).not.toContain(secret);
    const id = /^Webhook (\w+), "billing"/.exec(created.stderr)?.[1] ?? "";
    const file = join(newFolder(), "secret");
    const other = await root(`webhook create -e ${name} https://webhooks.invalid/ --name lost --out ${file}`);
    expect([other.code, other.stdout]).toEqual([0, ""]);
    expect(readFileSync(file, "utf8")).toMatch(/^whsec_/);

    const list = (await admin("webhook list")).stdout;
    expect(list).toMatch(/^WEBHOOK +NAME +STATE +DELIVERED UNTIL +FAILED ATTEMPTS +URL$/m);
    expect(list).toMatch(new RegExp(`^${id} +billing +enabled +${TIME} +0 +${receiver.url("/a")}$`, "m"));
    expect((await admin(`webhook get ${id}`)).stdout).toMatch(/^event types +all$/m);
    expect((await admin("audit --method CreateWebhook")).stdout).toMatch(new RegExp(`CreateWebhook +${id} `));

    await admin("group create acme");
    await waitFor("the event arrives", () => receiver.at("/a").some(({ type }) => type === "user_group.created"));
    const tested = await admin(`webhook test ${id}`);
    expect(tested.stdout).toMatch(/^outcome +delivered\nHTTP status +204\nduration +/m);
    expect(receiver.at("/a").some(({ type }) => type === "webhook.test")).toBe(true);
    const again = await admin(`webhook test ${id}`);
    expect([again.code, again.stderr]).toEqual([expect.any(Number), expect.stringContaining("WEBHOOK_TEST_LIMITED")]);
    const attempts = jsonLinesIn((await admin(`webhook deliveries ${id} --json`)).stdout);
    expect(attempts).toContainEqual(
      expect.objectContaining({ eventType: "user_group.created", outcome: "DELIVERY_OUTCOME_DELIVERED", attempt: 1 }),
    );
    expect((await admin(`webhook deliveries ${id}`)).stdout).toMatch(/^CREATED +EVENT TYPE +EVENT ID +ATTEMPT/);

    const rotated = await admin(`webhook rotate-secret ${id}`);
    expect(rotated.stdout).toMatch(/^whsec_/);
    expect(rotated.stdout).not.toBe(created.stdout);
    const updated = await admin(
      `webhook update ${id} --to ${receiver.url("/b")} --events user_group.deleted webhook.updated`,
    );
    expect(updated.stdout).toMatch(/^event types +user_group.deleted, webhook.updated$/m);
    await waitFor("the change arrives at the new URL", () => receiver.at("/b").length > 0);
    for (const key of [created, rotated]) verify(key.stdout.trimEnd(), receiver.at("/b")[0] ?? expect.fail("none"));
    expect((await admin(`webhook disable ${id}`)).stdout).toMatch(/^state +disabled$/m);
    await admin("group delete acme --yes");
    expect((await admin(`webhook enable ${id}`)).stdout).toMatch(/^state +enabled$/m);
    const deletions = () => receiver.at("/b").filter(({ type }) => type === "user_group.deleted").length;
    await waitFor("the waiting event arrives", () => deletions() === 1);
    expect((await admin(`webhook redeliver ${id} --since 1h`)).code).toBe(0);
    await waitFor("the event arrives again", () => deletions() === 2);
    const all = await admin(`webhook update ${id} --events *`);
    expect(all.stdout).toMatch(/^event types +all$/m);

    const deleted = await admin(`webhook delete ${id} --yes`);
    expect([deleted.code, deleted.stdout, deleted.stderr]).toEqual([0, "", `Deleted the webhook ${id}.\n`]);
    for (const command of ["get", "test", "deliveries", "enable", "rotate-secret"]) {
      const gone = await admin(`webhook ${command} ${id}`);
      expect([gone.code, gone.stderr]).toEqual([3, expect.stringContaining("ugs webhook list")]);
    }
  });

  it("explains why a URL or an event type is rejected", async () => {
    const { admin } = await newEnvironment();
    const create = (url: string, more = "") => admin(`webhook create ${url} --name a ${more}`.trim());
    expect((await create("http://example.com")).stderr).toContain("must start with https://");
    expect((await create("https://10.0.0.1")).stderr).toContain("WEBHOOK_ALLOW");
    expect((await create("https://example.com", "--events nothing")).stderr).toContain("user_group.created");
    expect((await admin("webhook update x")).stderr).toContain("nothing to change");
  });
});
