import { readFileSync } from "node:fs";
import { openWire } from "@user-group-service/testing/attacks/wire";
import { ROOT } from "@user-group-service/testing/process";
import { idle, residentBytesOf } from "@user-group-service/testing/process-usage";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { describeWithChromium, suiteBrowser } from "./support/chromium.ts";
import { suiteServer } from "./support/opened.ts";

type Operation = { readonly operationId: string; readonly tags: readonly string[] };

const document = JSON.parse(readFileSync(`${ROOT}/gen/openapi.json`, "utf8")) as {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly webhooks: { readonly [type: string]: { readonly post: Operation } };
};

const OPERATIONS = Object.values(document.paths).flatMap((methods) => Object.values(methods));

const idOf = ({ operationId, tags }: Operation) => `operations-${tags[0]}-${operationId}`;

const WEBHOOK_IDS = Object.values(document.webhooks).map(({ post }) => `operations-webhooks-${post.operationId}`);

const GET_USER = "operations-REST-getUser";
const LOOKUP = "operations-AdminService-AdminService_ListUserGroups";

describeWithChromium("the page /docs/ in Chromium", () => {
  const browser = suiteBrowser();

  it.each(RUNTIMES)("shows every operation, and sends requests only to the service, on %s", async (runtime) => {
    const page = await browser.context.newPage();
    const requested: string[] = [];
    const complaints: string[] = [];
    page.on("request", (request) => requested.push(request.url()));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));
    await page.addInitScript(() => {
      const violations: string[] = [];
      Object.assign(globalThis, { violations });
      globalThis.document.addEventListener("securitypolicyviolation", (event) => {
        violations.push(`${event.violatedDirective} ${event.blockedURI}`);
      });
    });
    const server = servers[runtime];
    await page.goto(`${server.url}/docs/`);
    await page.waitForSelector(".opblock");
    const shown = await page.locator(".opblock").evaluateAll((all) => all.map(({ id }) => id));
    expect(shown.toSorted()).toEqual([...OPERATIONS.map(idOf), ...WEBHOOK_IDS].toSorted());
    // Opens one operation of each tag, because opening all operations takes minutes on a busy machine.
    const opened = [GET_USER, LOOKUP, ...[...new Map(OPERATIONS.map((each) => [each.tags[0], idOf(each)])).values()]];
    const toggle = (ids: readonly string[]) =>
      page.evaluate((all) => {
        for (const id of all)
          globalThis.document.getElementById(id)?.querySelector<HTMLElement>(".opblock-summary-control")?.click();
      }, ids);
    const openCount = () => page.locator(".responses-inner").count();
    await toggle(opened);
    await waitFor("the operations are open", async () => (await openCount()) === opened.length);
    // The page draws all open operations again after each click, so close the operations that are not needed below.
    await toggle(opened.slice(2));
    await waitFor("the other operations are closed", async () => (await openCount()) === 2);

    await authorize(page, server.tokens.customer);
    // By default, the user can call only operations that change nothing. Other operations need a checkbox.
    const tryOut = (id: string) => page.locator(`[id="${id}"] .try-out__btn`);
    expect(await Promise.all([GET_USER, LOOKUP].map((id) => tryOut(id).count()))).toEqual([0, 1]);
    await page.getByLabel("Allow calls that change data").check();
    const { status, body } = await tryGet(page, "from-the-page");
    expect(status).toBe("200");
    // If a field of the form is empty, the page does not send the field.
    expect(JSON.parse(body)).toMatchObject({ success: 1, new_user_group: true, user_group: { properties: null } });
    expect(await page.locator(".curl").first().innerText()).toContain("Authorization");
    expect(await page.evaluate(() => globalThis.document.body.innerText)).not.toContain(server.tokens.customer);
    await page.getByLabel("Allow calls that change data").uncheck();
    await waitFor(
      "the operation can no longer be called",
      async () => (await page.locator(`[id="${GET_USER}"] .execute`).count()) === 0,
    );

    expect(await page.evaluate(() => (globalThis as unknown as { violations: string[] }).violations)).toEqual([]);
    expect(complaints).toEqual([]);
    const others = requested.filter((url) => !url.startsWith(server.url) && !url.startsWith("data:"));
    expect(others).toEqual([]);
    await page.close();
  });

  const servers = {
    node: suiteServer(() => ({ runtime: "node" })),
    deno: suiteServer(() => ({ runtime: "deno" })),
  };
});

async function authorize(page: Page, token: string): Promise<void> {
  await page.locator(".btn.authorize").first().click();
  for (const field of await page.locator(".auth-container input").all())
    expect(await field.getAttribute("type")).toBe("password");
  await page.locator("#auth-bearer-value").fill(token);
  await page.locator(".auth-container", { hasText: "bearer" }).locator("button.authorize").click();
  await page.locator(".btn-done").first().click();
}

async function tryGet(page: Page, userGroupId: string): Promise<{ status: string; body: string }> {
  const operation = page.locator(`[id="${GET_USER}"]`);
  await operation.locator(".try-out__btn").click();
  await operation.locator('tr[data-param-name="user_group_id"] input').fill(userGroupId);
  await operation.locator(".execute").click();
  const live = operation.locator(".live-responses-table");
  await live.waitFor();
  return {
    status: (await live.locator("tbody .response-col_status").first().innerText()).trim(),
    body: await live.locator("tbody .highlight-code pre").first().innerText(),
  };
}

describe("the files of the page /docs/", () => {
  const server = suiteServer(() => ({}));

  it("unauthenticated clients share one copy of a file in memory, even if they do not read the responses", async () => {
    const ask = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n";
    const first = await openWire(server.url, "http/1.1");
    first.push(ask);
    await waitFor("the file is read once", () => first.received().byteLength > 1_700_000);
    await idle(server.pid);
    const before = residentBytesOf(server.pid);
    // Each client requests the whole script, uncompressed, eight times.
    const unread = await Promise.all(Array.from({ length: 200 }, () => openWire(server.url, "http/1.1")));
    for (const raw of unread) {
      raw.socket.pause();
      raw.push(ask.repeat(8));
    }
    await idle(server.pid);
    // The server must not keep a copy for each response. The 1,600 copies would need 2.7 GB of memory.
    expect(residentBytesOf(server.pid) - before).toBeLessThan(64 * 1024 * 1024);
    for (const raw of unread) raw.socket.resume();
    await waitFor("all clients have a response", () => unread.every((raw) => raw.received().byteLength > 0));
    for (const raw of unread) expect(raw.received().toString("latin1", 0, 15)).toBe("HTTP/1.1 200 OK");
    const answer = await fetch(`${server.url}/docs/`);
    expect(answer.status).toBe(200);
    for (const { socket } of [first, ...unread]) socket.destroy();
  });
});
