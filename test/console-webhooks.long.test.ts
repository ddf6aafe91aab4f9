import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { WebhookState as State } from "../gen/usergroup/admin/v1/webhook_pb.ts";
import { adminOf, customerOf, ROLE_VALUES } from "./support/admin.ts";
import { describeWithChromium, suiteBrowser } from "./support/chromium.ts";
import { openConsole } from "./support/console.ts";
import { suiteServer } from "./support/opened.ts";
import { grpcClients } from "./support/rpc.ts";
import { ADMIN_ENV, ADMIN_TOKEN, newEnvironments } from "./support/server.ts";
import { newReceiver, verify } from "./support/webhooks.ts";

describeWithChromium("the console, used by keyboard on the pages of webhooks", () => {
  const browser = suiteBrowser();

  // The name of the environment is fixed, because screenshots show it.
  const server = suiteServer({
    env: { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" },
    like: { ...newEnvironments(), environment: "acme" },
  });

  async function adminToken(): Promise<string> {
    const request = { environment: customerOf(server), displayName: "the console", role: ROLE_VALUES.admin };
    return (await adminOf(server.url).createApiToken(request)).token;
  }

  it("creates, tests, changes, disables and deletes a webhook, rotates its secret, and shows each secret once", async () => {
    const { page, type, enter, press, says, alerts, checkViews, picture, signIn, tabTo, leave } = await openConsole(
      browser,
      server.url,
    );
    const receiver = await newReceiver((_, response, path) => response.writeHead(path === "/broken" ? 500 : 204).end());
    const bearer = await adminToken();
    const admin = adminOf(server.url, bearer);
    const { groups } = grpcClients(server, bearer);
    const content = () => page.evaluate(() => document.documentElement.outerHTML);
    const check = async (label: string) => {
      await tabTo("checkbox", label);
      await page.keyboard.press("Space");
    };

    await signIn(bearer);
    await press("link", "Webhooks");
    await page.getByText("There are no webhooks yet.").waitFor();
    await press("button", "New webhook");
    await press("button", "Create");
    await alerts("Give the webhook a name");
    await enter("Name", "billing");
    await alerts("Give the URL");
    await enter("URL", "http://example.com/");
    await alerts("WEBHOOK_URL_REFUSED");
    await alerts("must start with https://");
    await enter("URL", "https://10.0.0.1/");
    await alerts("that is not in WEBHOOK_ALLOW");
    await type("URL", receiver.url("/hook"));
    await check("All event types, including types of later releases");
    await press("button", "Create");
    await alerts("Choose at least one event type");
    await check("user_group.updated");
    await check("user_group.deleted");
    const chosen = "--events=user_group.deleted --events=user_group.updated";
    await page.getByText(`ugs webhook create --name billing ${chosen} ${receiver.url("/hook")}`).waitFor();
    await checkViews("create a webhook");
    // Leaving the page would discard the typed values, so the console asks for confirmation.
    await press("button", "Cancel");
    await page.getByRole("dialog", { name: "Leave without saving?" }).waitFor();
    await press("button", "Stay on this page");
    await press("button", "Create");
    await says("Created the webhook billing.");
    const secret = await page.getByLabel("Secret", { exact: true }).inputValue();
    expect(secret).toMatch(/^whsec_/);
    await page.getByText("The secret is not shown again.").waitFor();
    await checkViews("the secret of a webhook");
    await press("button", "Copy the secret");
    await page.locator(".live", { hasText: /^Copied the secret|^The browser does not allow/ }).waitFor();
    await press("button", "I have stored the secret: close");
    expect(await content()).not.toContain(secret);
    const [created] = (await admin.listWebhooks({})).webhooks;
    const id = created?.id ?? "";
    expect(created).toMatchObject({ displayName: "billing", url: receiver.url("/hook"), state: State.ENABLED });
    expect(created?.eventTypes).toEqual(["user_group.deleted", "user_group.updated"]);
    await picture("webhooks");

    await press("link", `billing ${id}`);
    await page.getByText("There are no deliveries yet.").waitFor();
    expect(await page.getByText("may be undelivered").count()).toBe(0);
    await press("button", "Send a test");
    await says("Delivered the test: the endpoint answered 204");
    verify(secret, await waitFor("the test message arrives", () => receiver.at("/hook")[0]));
    await groups.getUserGroup({ userGroupId: "globex" });
    await groups.updateUserGroup({ userGroupId: "globex", name: "Globex" });
    const updates = () => receiver.at("/hook").filter((each) => each.type === "user_group.updated");
    await waitFor("the event arrives", () => updates().length === 1);
    const logged = page.getByRole("row").filter({ hasText: "user_group.updated" });
    const readAgain = async (what: string, count: number) => {
      await waitFor(what, async () => {
        const { deliveries } = await admin.listWebhookDeliveries({ webhookId: id });
        return deliveries.length >= count;
      });
      await press("button", "Read again");
    };
    await readAgain("the delivery is logged", 1);
    await logged.filter({ hasText: "delivered, 204" }).waitFor();
    await picture("webhook");
    // The service refuses a test delivery if the previous test delivery was a short time ago.
    await admin.testWebhook({ webhookId: id }).catch(() => undefined);
    await press("button", "Send a test");
    await alerts("WEBHOOK_TEST_LIMITED");
    await alerts("try again in");

    await press("button", "Deliver again");
    await checkViews("deliver again");
    await enter("Since", "soon");
    await alerts("Since must be a time such as");
    await enter("Since", "1h");
    await says("are delivered again, in order.");
    await waitFor("the event arrives again", () => updates().length === 2);
    expect(new Set(updates().map((each) => each.id)).size).toBe(1);

    await press("button", "Rotate the secret");
    await press("button", "Rotate");
    await says(`Rotated the secret of the webhook ${id}.`);
    const rotated = await page.getByLabel("Secret", { exact: true }).inputValue();
    expect(rotated).not.toBe(secret);
    await page.getByRole("term").filter({ hasText: "Old secret signs until" }).waitFor();
    await press("button", "I have stored the secret: close");
    expect(await content()).not.toContain(rotated);
    await groups.updateUserGroup({ userGroupId: "globex", name: "Globex Corp." });
    await waitFor("the next event arrives", () => updates().length === 3);
    for (const each of [secret, rotated]) verify(each, updates()[2] as NonNullable<ReturnType<typeof updates>[0]>);

    await press("button", "Edit");
    await press("button", "Save");
    await alerts("Nothing to save");
    await type("Name", "invoices");
    await type("URL", receiver.url("/broken"));
    await check("user_group.deleted");
    const changes = `--to ${receiver.url("/broken")} --name invoices --events=user_group.updated`;
    await page.getByText(`ugs webhook update ${changes} ${id}`).waitFor();
    await press("button", "Save");
    await says(`Saved the webhook ${id}.`);
    await page.getByRole("definition").filter({ hasText: "invoices" }).waitFor();
    expect((await admin.getWebhook({ webhookId: id })).webhook).toMatchObject({
      ...{ displayName: "invoices", url: receiver.url("/broken"), eventTypes: ["user_group.updated"] },
    });
    await groups.updateUserGroup({ userGroupId: "globex", name: "Globex Ltd." });
    await waitFor("the delivery fails", async () => {
      const { webhook } = await admin.getWebhook({ webhookId: id });
      return (webhook?.failedAttempts ?? 0) > 0;
    });
    await press("button", "Read again");
    await logged.filter({ hasText: "the endpoint answered 500" }).first().waitFor();
    await page.getByText(/The webhook is enabled, \d+ failed attempts?\. Events since/).waitFor();
    await checkViews("a webhook that fails");
    // The service refuses a test delivery if the previous test was a short time ago. So repeat the test delivery.
    const refused = page.locator(".live", {
      hasText: "The test was not delivered: the endpoint answered 500. See the log",
    });
    await waitFor("the result of the test delivery is shown", async () => {
      await press("button", "Send a test");
      await page.getByRole("button", { name: "Wait …" }).waitFor({ state: "detached" });
      return (await refused.count()) > 0;
    });
    // After three days of failures, the service disables a webhook. Simulate the response for such a webhook.
    await page.route(
      "**/GetWebhook",
      async (route) => {
        const response = await route.fetch();
        const { webhook } = (await response.json()) as { readonly webhook: object };
        await route.fulfill({ response, json: { webhook: { ...webhook, state: "WEBHOOK_STATE_FAILED" } } });
      },
      { times: 1 },
    );
    await press("button", "Read again");
    await page.getByText("The webhook is disabled by the service after three days of failures.").waitFor();
    await page.getByText("Repair the endpoint, send a test, then enable the webhook").waitFor();
    await page.getByRole("button", { name: "Enable" }).waitFor();
    await press("button", "Read again");

    await press("button", "Disable");
    await says(`Disabled the webhook ${id}.`);
    await page.getByText("These events wait until you enable the webhook").waitFor();
    await press("link", "All webhooks");
    const row = page.getByRole("row").filter({ hasText: `invoices ${id}` });
    await row.filter({ hasText: /disabled.*\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/ }).waitFor();
    await press("link", `invoices ${id}`);
    await press("button", "Edit");
    await type("URL", receiver.url("/hook"));
    await press("button", "Save");
    await says(`Saved the webhook ${id}.`);
    await press("button", "Enable");
    await says(`Enabled the webhook ${id}.`);
    await waitFor("the event that waited arrives", () => updates().length === 4);

    await press("button", "Delete");
    await page.getByRole("dialog").getByText(`ugs webhook delete ${id}`).waitFor();
    await checkViews("delete a webhook");
    await enter(`To continue, type ${id}`, "it");
    await page.getByText("nothing was done").waitFor();
    expect((await admin.listWebhooks({})).webhooks).toHaveLength(1);
    await enter(`To continue, type ${id}`, id);
    await says("Deleted the webhook invoices.");
    await page.getByText("There are no webhooks yet.").waitFor();
    expect((await admin.listWebhooks({})).webhooks).toEqual([]);
    await press("link", "Audit");
    await press("link", id);
    await alerts("WEBHOOK_NOT_FOUND");
    await alerts("See the list of webhooks.");
    await leave();
  });

  it("keeps typed values if the response of a creation is lost, or if the environment has too many webhooks", async () => {
    const { page, type, press, says, alerts, signIn, leave } = await openConsole(browser, server.url, {
      hash: "#/webhooks",
    });
    const admin = adminOf(server.url);
    const environment = customerOf(server);
    await signIn(ADMIN_TOKEN);
    await page.getByText("choose an environment").waitFor();
    await press("link", "choose an environment");
    await press("link", `${environment.name}/Customer`);
    await press("link", "Webhooks");
    await press("button", "New webhook");
    await type("Name", "first");
    await type("URL", "https://example.com/");
    await page.route("**/CreateWebhook", async (route) => {
      await route.fetch();
      await route.abort();
    });
    await press("button", "Create");
    await alerts("The change may have been made.");
    await page.unroute("**/CreateWebhook");
    expect(await page.getByLabel("URL", { exact: true }).inputValue()).toBe("https://example.com/");
    const existing = (await admin.listWebhooks({ environment })).webhooks.length;
    for (let i = existing; i < 20; i++)
      await admin.createWebhook({ environment, displayName: `webhook ${i}`, url: "https://example.com/" });
    await press("button", "Create");
    await alerts("Delete webhooks that are no longer used.");
    const [first, ...others] = (await admin.listWebhooks({ environment })).webhooks;
    await admin.deleteWebhook({ environment, webhookId: first?.id ?? "" });
    await press("button", "Create");
    await says("Created the webhook first.");
    for (const { id: webhookId } of others) await admin.deleteWebhook({ environment, webhookId });
    await leave();
  });
});
