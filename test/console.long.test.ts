import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { adminOf, customerOf, ROLE_VALUES } from "./support/admin.ts";
import { describeWithChromium, stopClock, suiteBrowser } from "./support/chromium.ts";
import { openConsole, readUntil } from "./support/console.ts";
import { newServer, suiteServer } from "./support/opened.ts";
import { metricsUrlOf } from "./support/operations.ts";
import { outputOf } from "./support/programs.ts";
import { grpcClients } from "./support/rpc.ts";
import { ADMIN_ENV, ADMIN_TOKEN, newEnvironments } from "./support/server.ts";
import { newReceiver } from "./support/webhooks.ts";

async function isInvalid(page: Page, label: string, error: string): Promise<void> {
  const field = page.getByLabel(label, { exact: true }).and(page.locator("[aria-invalid=true]"));
  const described = await field.getAttribute("aria-describedby");
  const texts = (described ?? "").split(" ").map((id) => page.locator(`[id="${id}"]`).innerText());
  expect((await Promise.all(texts)).join(" ")).toContain(error);
}

describeWithChromium("the console, used by keyboard in Chromium", () => {
  const browser = suiteBrowser();

  // The name of the environment is fixed, because screenshots show it.
  const server = suiteServer({
    env: { ...ADMIN_ENV, ROTATION_GRACE: "1h" },
    like: { ...newEnvironments(), environment: "contoso" },
  });

  async function newEnvironment(name: string) {
    const environment = { name, tag: ApiEnvironmentTag.CUSTOMER };
    await adminOf(server.url).createEnvironment({ environment });
    return environment;
  }

  async function adminToken(environment = customerOf(server)): Promise<string> {
    const request = { environment, displayName: "console", role: ROLE_VALUES.admin };
    return (await adminOf(server.url).createApiToken(request)).token;
  }

  it("signs in with a token of a sufficient role, and shows the reason if a token is rejected", async () => {
    // The page contains this notice until the script of the console removes it.
    const loading = "The console is loading.";
    expect(await (await fetch(`${server.url}/console/`)).text()).toContain(loading);
    const { page, enter, press, says, alerts, checkViews, picture, signIn, leave } = await openConsole(
      browser,
      server.url,
    );
    expect(await page.getByText(loading).count()).toBe(0);
    // The script has rendered the page when the event DOMContentLoaded ends. So the test measures the time until the
    // end of this event. On a busy machine, several attempts may be necessary.
    await waitFor("the page is interactive within a second", async () => {
      await page.reload();
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      const [entry] = await page.evaluate(() =>
        performance.getEntriesByType("navigation").map((each) => each.toJSON()),
      );
      return (entry as PerformanceNavigationTiming).domContentLoadedEventEnd < 1000;
    });
    await picture("sign in");
    const refusedWith = async (token: string, words: string) => {
      await enter("ADMIN_TOKEN, or an API token of role admin", token);
      await alerts(words);
    };
    await refusedWith("no-token-of-anybody", "unknown, revoked or expired");
    expect(await page.getByRole("alert").innerText()).toMatch(/request id [0-9a-f]{32}/);
    await checkViews("a failure");
    await refusedWith("with space", "no spaces");
    await refusedWith(server.tokens.customer, "role manage, which may not use the console");
    await signIn(ADMIN_TOKEN);
    await press("button", "Sign out");
    await page.getByText("You are signed out. The console no longer stores the token.").waitFor();
    await expectNowhere(page, ADMIN_TOKEN);
    await signIn(await adminToken());
    await says("You are signed in.");
    await leave();
  });

  it("forgets the token and the loaded data after 15 minutes without activity, and not earlier", async () => {
    const { page, type, checkViews, signIn, leave } = await openConsole(browser, server.url, { hasClock: true });
    await signIn(ADMIN_TOKEN);
    await page.getByRole("table").waitFor();
    await page.clock.fastForward("14:30");
    await page.keyboard.press("Tab");
    await page.clock.fastForward("14:30");
    expect(await page.getByRole("button", { name: "Sign out" }).count()).toBe(1);
    await page.clock.fastForward("00:31");
    await page.getByText("You were signed out after 15 minutes without activity.").waitFor();
    // Signing out removes the notice about the sign-in.
    expect(await page.locator(".live").innerText()).toBe("");
    expect(await page.getByRole("table").count()).toBe(0);
    await checkViews("signed out");
    // After the machine has slept, a key event may arrive before the timers run. If the time limit has passed by then,
    // the key event must end the session.
    await signIn(ADMIN_TOKEN);
    await page.clock.setSystemTime(Date.now() + 2 * 3_600_000);
    await page.keyboard.press("Tab");
    await page.getByText("You were signed out").waitFor();
    // If a token was typed but not submitted, the console forgets this token as well.
    const field = page.getByLabel("ADMIN_TOKEN, or an API token of role admin");
    await type("ADMIN_TOKEN, or an API token of role admin", ADMIN_TOKEN);
    await page.clock.fastForward("15:01");
    await waitFor("the typed token is forgotten", async () => (await field.inputValue()) === "");
    await type("ADMIN_TOKEN, or an API token of role admin", ADMIN_TOKEN);
    await page.evaluate(() => dispatchEvent(new Event("pagehide")));
    await waitFor("the typed token is forgotten when the page is left", async () => (await field.inputValue()) === "");
    await leave();
  });

  it("moves the focus to the new page or dialog without a delay, so that no key press is lost", async () => {
    const { page, press, signIn, leave } = await openConsole(browser, server.url, { hasClock: true });
    await signIn(ADMIN_TOKEN);
    const opener = `Delete ${server.environment}/Customer …`;
    await page.getByRole("button", { name: opener }).waitFor();
    // While the clock is stopped, the browser renders no frames. All pages share this clock.
    await stopClock(page);
    closeLater(() => browser.context.clock.resume());
    await press("button", opener);
    await expectFocus(page.getByRole("dialog").getByRole("checkbox"), "the dialog");
    await page.keyboard.press("Escape");
    await expectFocus(page.getByRole("button", { name: opener }), "the opener of the dialog");
    await press("link", "API tokens");
    await expectFocus(page.getByRole("heading", { level: 1 }), "the heading");
    await leave();
  });

  it("creates environments, and deletes an environment only after the user has typed its name", async () => {
    const { page, type, enter, press, says, alerts, checkViews, picture, signIn, choose, leave } = await openConsole(
      browser,
      server.url,
    );
    await signIn(ADMIN_TOKEN);
    await press("button", "New environment");
    await enter("Name", "not right");
    await alerts("1 to 64 characters");
    await isInvalid(page, "Name", "1 to 64 characters");
    await type("Name", "globex");
    await choose("Tag", "Testing");
    await press("button", "Create");
    await says("Created the environment globex/Testing.");
    await press("button", "New environment");
    await type("Name", "globex");
    await choose("Tag", "Testing");
    await press("button", "Create");
    await alerts("exists");
    await checkViews("a new environment");
    await press("button", "Cancel");
    await press("button", "Leave without saving");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await picture("environments");
    const isThere = async () => {
      const { environments } = await adminOf(server.url).listEnvironments({});
      return environments.some(({ name }) => name === "globex");
    };
    await press("button", "Delete globex/Testing …");
    await checkViews("delete an environment");
    await enter("To continue, type globex/Testing", "globex");
    await page.getByText("The typed text is not globex/Testing: nothing was done.").waitFor();
    await isInvalid(page, "To continue, type globex/Testing", "The typed text is not globex/Testing");
    await press("button", "Copy the command");
    const announced = page.getByRole("dialog").getByRole("status");
    await announced.filter({ hasText: /^Copied the command|^The browser does not allow/ }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(await page.getByRole("status").innerText()).toBe("");
    expect(await isThere()).toBe(true);
    const opener = page.getByRole("button", { name: "Delete globex/Testing …" });
    await expectFocus(opener, "the opener of the dialog");
    await page.keyboard.press("Enter");
    await enter("To continue, type globex/Testing", "globex/Testing");
    await says("Deleted the environment globex/Testing.");
    expect(await isThere()).toBe(false);
    await opener.waitFor({ state: "detached" });
    await expectFocus(
      page.getByRole("heading", { name: "Environments" }),
      "the heading (the opener of the dialog is gone)",
    );
    await page.evaluate(() => {
      location.hash = "#/audit";
    });
    await page.getByRole("heading", { name: "Audit", exact: true }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Environments" }).waitFor();
    expect(await page.getByRole("status").innerText()).toBe("");
    await leave();
  });

  it("creates, finds, changes, rotates, revokes and deletes a user group", async () => {
    const { page, type, enter, press, says, alerts, checkViews, picture, signIn, leave } = await openConsole(
      browser,
      server.url,
    );
    const bearer = await adminToken(await newEnvironment("acme"));
    await signIn(bearer);
    await press("link", "User groups");
    await page.getByText("There are no user groups yet.").waitFor();
    await press("button", "New user group");
    await type("Id", "it's acme");
    await checkViews("a new user group");
    await type("Properties", '{"plan": "gold",');
    await press("button", "Create");
    await alerts("properties is not valid JSON");
    await type("Properties", '{"plan": "gold"}');
    await type("Mapping", "sales=warehouse");
    await press("button", "Create");
    await says("Created the user group it's acme.");
    const token = await page.getByLabel("Token", { exact: true }).inputValue();
    expect(token).toMatch(/^ugt_/);
    // The token is shown only once, so the dialog stays open.
    for (const _ of "12") await page.keyboard.press("Escape");
    await says("The token is shown only once.");
    expect(await page.getByLabel("Token", { exact: true }).inputValue()).toBe(token);
    await press("button", "I have stored the token: close");
    await expectNowhere(page, token);
    await expectFocus(page.getByRole("heading", { level: 1 }), "the heading (the opener of the dialog is gone)");
    await enter("Prefix of the id", "it'");
    await page.getByRole("table", { name: "User groups with ids that start with it'" }).waitFor();
    await picture("user groups");
    await page.getByText("ugs group list --prefix 'it'\\'''").waitFor();
    await press("link", "it's acme");
    await page.getByRole("heading", { name: "User group it's acme" }).waitFor();
    await picture("user group");
    // Users copy the shown programs and run them without changes. So a program contains the id of the group, and reads
    // the token from an environment variable.
    const program = page.locator(".snippets pre");
    for (const [language, words] of [
      ["curl", "$API_TOKEN"],
      ["TypeScript", "process.env.API_TOKEN"],
      ["Python", 'os.environ["API_TOKEN"]'],
      ["Go", 'os.Getenv("API_TOKEN")'],
    ] as const) {
      await press("button", language);
      await program.filter({ hasText: words }).waitFor();
      const text = await program.innerText();
      expect(text).not.toContain("ugk_");
      const output = await outputOf(language, text, { API_TOKEN: bearer });
      if (output === undefined) continue;
      const session = language === "curl" ? JSON.parse(output).session : output.trim();
      const resolved = await grpcClients(server, bearer).viewers.resolveViewer({ token: session });
      expect(resolved.providedId, language).toBe("it's acme");
    }
    await page.getByRole("listitem").filter({ hasText: "GetUserGroup" }).filter({ hasText: "by console" }).waitFor();

    // If another user has changed the group in the meantime, the console overwrites nothing, and keeps the typed text.
    await press("button", "Edit");
    await type("Name", "Acme Ltd.");
    const { groups: others } = grpcClients(server, bearer);
    await others.updateUserGroup({ userGroupId: "it's acme", name: "Acme Inc.", properties: { plan: "tin" } });
    await press("button", "Save");
    await alerts("Somebody else changed the user group in the meantime.");
    await page.getByRole("dialog").getByRole("definition").filter({ hasText: "Acme Inc." }).waitFor();
    await checkViews("a change by somebody else");
    await press("button", "Save");
    await says("Saved name of the user group it's acme.");
    await page.getByRole("definition").filter({ hasText: "Acme Ltd." }).waitFor();
    await page.getByRole("definition").filter({ hasText: '"plan": "tin"' }).waitFor();

    await press("button", "Rotate the token");
    expect(await page.getByLabel("Grace period").inputValue()).toBe("1h");
    await enter("Grace period", "90d");
    await alerts("previous_token_ttl");
    await type("Grace period", "1h");
    await others.updateUserGroup({ userGroupId: "it's acme", mapping: { sales: "warehouse\nbilling=pg" } });
    // The first response is lost. The second request has the same request id, and its response contains the token.
    await page.route("**/RotateUserGroupToken", async (route) => {
      await route.fetch();
      await route.abort();
    });
    // A request immediately after `page.route` may bypass the new route. `press` first moves the focus, so the request
    // comes later.
    await press("button", "Rotate");
    await alerts("The change may have been made.");
    await page.unroute("**/RotateUserGroupToken");
    await press("button", "Rotate");
    await says("Rotated the token of the user group it's acme.");
    const rotated = await page.getByLabel("Token", { exact: true }).inputValue();
    expect(rotated).toMatch(/^ugt_/);
    expect(rotated).not.toBe(token);
    const rotations = await adminOf(server.url, bearer).listAuditEvents({ method: "RotateUserGroupToken" });
    expect(rotations.auditEvents).toHaveLength(1);
    await page.getByRole("term").filter({ hasText: "Old token valid until" }).waitFor();
    await page.getByRole("definition").filter({ hasText: '{ "sales": "warehouse\\nbilling=pg" }' }).waitFor();
    await checkViews("a new token");
    await press("button", "I have stored the token: close");
    await expectNowhere(page, rotated);
    await press("button", "Edit");
    await type("Mapping", "sales=lake");
    await press("button", "Save");
    await says("Saved mapping of the user group it's acme.");
    await page.getByRole("definition").filter({ hasText: "sales=lake" }).waitFor();
    await press("button", "Rotate the token");
    await type("Grace period", "0s");
    await checkViews("rotate at once");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await press("button", "Rotate the token");
    await type("Grace period", "0s");
    await enter("To continue, type it's acme", "it's acme");
    await says("Rotated the token of the user group it's acme.");
    expect(await page.getByLabel("Token", { exact: true }).inputValue()).not.toBe(rotated);
    await press("button", "I have stored the token: close");
    await page.getByRole("term").filter({ hasText: "Old token valid until" }).waitFor({ state: "detached" });
    const isFiltered = async () => (await page.getByLabel("User group", { exact: true }).inputValue()) === "it's acme";
    await press("link", "Its audit events");
    const renamed = page.getByRole("table", { name: "Events that match the filter" }).getByRole("row");
    await renamed.filter({ hasText: "UpdateUserGroup" }).first().waitFor();
    expect(await isFiltered()).toBe(true);
    await press("link", "Audit");
    await page.getByRole("table", { name: "All events" }).waitFor();
    expect(await isFiltered()).toBe(false);
    await page.goBack();
    await renamed.filter({ hasText: "UpdateUserGroup" }).first().waitFor();
    expect(await isFiltered()).toBe(true);
    await page.goBack();
    await press("link", "Revoke its viewer sessions");
    await page.getByText("ugs viewer session revoke 'it'\\''s acme'").waitFor();
    expect(await isFiltered()).toBe(true);
    await page.goBack();
    await page.getByRole("heading", { name: "User group it's acme" }).waitFor();
    await press("button", "Revoke its tokens");
    await enter("To continue, type it's acme", "it's acme");
    await says("Revoked the tokens of the user group it's acme.");

    await press("button", "Suspend");
    await page.getByLabel("Reason").fill("unpaid <b>");
    await page.getByLabel("Resume it at").fill("7d");
    await page.getByText("ugs group suspend --reason 'unpaid <b>' --until 7d 'it'\\''s acme'").waitFor();
    await enter("To continue, type it's acme", "it's acme");
    await says("Suspended the user group it's acme.");
    await page.getByText("Suspended: unpaid <b>").waitFor();
    await press("button", "Resume");
    await enter("To continue, type it's acme", "it's acme");
    await says("Resumed the user group it's acme.");
    await page.getByText("Suspended: unpaid <b>").waitFor({ state: "detached" });

    await press("button", "Delete");
    await enter("To continue, type it's acme", "it's acme");
    await says("Deleted the user group it's acme.");
    await page.getByText("There are no user groups yet.").waitFor();
    await leave();
  });

  it("asks for confirmation before Escape, Cancel, Back or a reload discards unsaved text", async () => {
    const environment = await newEnvironment("soylent");
    await adminOf(server.url).importUserGroups({ environment, userGroups: [{ providedId: "green" }] });
    const { page, type, press, says, checkViews, signIn, leave } = await openConsole(browser, server.url, {
      hash: "#/groups",
    });
    await signIn(await adminToken(environment));
    await press("link", "green");
    await press("button", "Edit");
    await type("Name", "Soylent Green");
    const dialog = page.getByRole("dialog", { name: "Leave without saving?" });
    const stay = async () => {
      await dialog.waitFor();
      await press("button", "Stay on this page");
      await dialog.waitFor({ state: "hidden" });
      expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Soylent Green");
      expect(new URL(page.url()).hash).toBe("#/group?id=green");
    };
    await page.keyboard.press("Escape");
    await dialog.waitFor();
    await checkViews("leave without saving");
    await stay();
    await page.goBack();
    await stay();
    await press("button", "Cancel");
    await stay();
    const requested = page.waitForEvent("dialog");
    // The browser asks the user for confirmation. The test declines, so the reload does not happen.
    const reloading = page.evaluate(() => location.reload());
    expect((await requested).type()).toBe("beforeunload");
    await (await requested).dismiss();
    await reloading;
    await press("button", "Save");
    await says("Saved name of the user group green.");
    await press("link", "Audit");
    await page.getByRole("table", { name: "All events" }).waitFor();
    // The notice about the save is not shown on another page.
    expect(await page.locator(".live").innerText()).toBe("");
    await press("link", "User groups");
    await press("button", "New user group");
    await type("Id", "red");
    await page.goBack();
    await dialog.waitFor();
    await press("button", "Leave without saving");
    await page.getByRole("table", { name: "All events" }).waitFor();
    await press("link", "API tokens");
    await page.getByRole("heading", { name: "API tokens" }).waitFor();
    await leave();
  });

  it("lists user groups page by page, and continues after the service was unavailable", async () => {
    const environment = await newEnvironment("initech");
    const userGroups = Array.from({ length: 130 }, (_, i) => ({ providedId: `group-${String(i).padStart(3, "0")}` }));
    await adminOf(server.url).importUserGroups({ environment, userGroups });
    const { page, press, says, alerts, signIn, leave } = await openConsole(browser, server.url);
    await signIn(ADMIN_TOKEN);
    await press("link", "initech/Customer");
    await press("link", "User groups");
    // The header of the table counts as a row.
    const rows = page.getByRole("table").getByRole("row");
    await waitFor("the first page is shown", async () => (await rows.count()) === 101);
    await page.route("**/ListUserGroups", (route) => route.abort());
    await press("button", "Show more");
    await alerts("could not be reached");
    await page.unroute("**/ListUserGroups");
    await press("button", "Try again");
    await says("130 user groups are shown");
    expect(await rows.count()).toBe(131);
    expect(await page.getByRole("button", { name: "Show more" }).count()).toBe(0);
    // The user has signed in with ADMIN_TOKEN. So the page shows that only an API token can create a user group.
    await page.getByText("To create a user group, sign in with an API token").waitFor();
    await page.getByText("ugs group list --env initech/Customer").waitFor();
    await leave();
  });

  it("guides the user through the first steps on an empty service, and checks each step", async () => {
    const receiver = await newReceiver();
    const env = { ...ADMIN_ENV, API_TOKENS: "", WEBHOOK_ALLOW: "127.0.0.1" };
    const own = await newServer({ env });
    // The embedded store begins with two environments.
    for (const { name, tag } of (await adminOf(own.url).listEnvironments({})).environments)
      await adminOf(own.url).deleteEnvironment({ environment: { name, tag } });
    const { page, press, type, choose, says, signIn, picture, checkViews, leave } = await openConsole(
      browser,
      own.url,
      {
        hasClock: true,
      },
    );
    await signIn(ADMIN_TOKEN);
    await press("link", "Show the steps");
    await page.getByRole("heading", { name: "Get started" }).waitFor();
    const environment = page.getByRole("listitem").filter({ hasText: "Create an environment" });
    await environment.getByText("Create an environment, or choose one").waitFor();
    await press("button", "New environment");
    await type("Name", "contoso");
    await choose("Tag", "Customer");
    await press("button", "Create");
    await environment.getByText("The environment contoso/Customer exists.").waitFor();
    await page.getByText("No API token exists.").waitFor();
    await checkViews("the first steps");
    await press("button", "New API token");
    await type("Name", "the shop");
    await press("button", "Create");
    await says("Created the API token the shop.");
    const token = await page.getByLabel("Token", { exact: true }).inputValue();
    await press("button", "I have stored the token: close");
    const isDone = (text: string) =>
      readUntil(page, "ListSigningKeys", page.getByRole("status").filter({ hasText: text }));
    await isDone("The API token exists, but no back end has used it.");
    // Each shown program must run unchanged.
    const run = async (step: string) => {
      const program = await page.getByRole("listitem").filter({ hasText: step }).locator("pre").innerText();
      return promisify(execFile)("sh", ["-c", program], { env: { ...process.env, API_TOKEN: token } });
    };
    expect((await run("Create a user group")).stdout).toBe("200\n");
    await isDone("The user group acme exists.");
    await isDone("The service has accepted this token.");
    await run("Create a viewer session");
    await isDone("A viewer session was created.");
    await press("button", "New webhook");
    await type("Name", "billing");
    await type("URL", receiver.url("/hook"));
    await press("button", "Create");
    await press("button", "I have stored the secret: close");
    await isDone("The webhook exists, but has delivered nothing.");
    await picture("get started");
    await grpcClients(own, token).groups.updateUserGroup({ userGroupId: "acme", name: "Acme Ltd." });
    await isDone("A message was delivered.");
    // A back end has used the service, so the first page has no link to the steps for a new user.
    await press("link", "Environments");
    await page.getByRole("link", { name: "contoso/Customer" }).waitFor();
    expect(await page.getByRole("link", { name: "Show the steps" }).count()).toBe(0);
    await leave();
  });

  it("replaces characters that reorder text by their code points, so that different names never look the same", async () => {
    const environment = await newEnvironment("vandelay");
    const [name, shown] = ["left\u202Eright", "leftU+202Eright"];
    const admin = adminOf(server.url);
    await admin.importUserGroups({ environment, userGroups: [{ providedId: "acme" }] });
    await admin.suspendUserGroup({ environment, userGroupId: "acme", reason: name });
    await admin.createApiToken({ environment, displayName: name, role: ROLE_VALUES.read });
    const { page, signIn, leave } = await openConsole(browser, server.url);
    await signIn(ADMIN_TOKEN);
    const show = (path: string, params: { readonly [name: string]: string }) =>
      page.evaluate(
        (hash) => {
          location.hash = hash;
        },
        `#/${path}?${new URLSearchParams({ env: "vandelay/Customer", ...params })}`,
      );
    await show("groups", {});
    await page.getByText(`Suspended: ${shown}`).waitFor();
    await show("tokens", {});
    await page.getByRole("link", { name: shown }).waitFor();
    await show("audit", {});
    await page.getByRole("cell", { name: shown }).waitFor();
    await show("overview", { method: name });
    await page.getByText(`Calls of ${shown}`).waitFor();
    await leave();
  });

  it("finds user groups, environments and pages from any page", async () => {
    const environment = await newEnvironment("cyberdyne");
    const { page, press, type, signIn, checkViews, picture, tabTo, leave } = await openConsole(browser, server.url);
    const long = `urn:customer:${"0123456789".repeat(6)}:north-east`;
    await adminOf(server.url).importUserGroups({
      environment,
      userGroups: [
        { providedId: "skynet", name: "Genisys" },
        { providedId: "skynet-2", name: "T-800" },
        { providedId: long, name: "evil\u202Ename" },
        { providedId: `${long}\u00A0a`, name: "Spaced" },
        { providedId: "other", name: "The Skynet Fan Club" },
      ],
    });
    await signIn(ADMIN_TOKEN);
    await press("button", "Environment No environment chosen");
    const results = page.getByRole("option");
    await type("Environment", "CYBER");
    await results.filter({ hasText: "Environment cyberdyne/Customer" }).waitFor();
    await checkViews("the choice of an environment");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "User groups" }).waitFor();
    await page.getByText("evil").waitFor();
    // An invisible character is shown as its code point. If an id is truncated, its beginning and its end are shown.
    expect(await page.getByRole("row").filter({ hasText: "evil" }).innerText()).toContain("evilU+202Ename");
    const cut = page.getByTitle(long, { exact: true });
    expect(await cut.innerText()).toMatch(/^urn:customer:0123456789.…\S*:north-east/);
    await page.getByRole("link", { name: long, exact: true }).waitFor();
    await page.getByTitle(`${long}U+00A0a`, { exact: true }).waitFor();

    await tabTo("link", "API tokens");
    await page.keyboard.press("/");
    const field = "User group, environment or page";
    await type(field, "skynet");
    await waitFor("the groups are found", async () => (await results.count()) === 3);
    const texts = await results.allInnerTexts();
    expect(texts.map((text) => text.split(/\s/)[0])).toEqual(["skynet", "skynet-2", "other"]);
    await picture("search");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await expectFocus(page.getByRole("combobox", { name: field }), "the field");
    expect(await page.getByRole("option", { selected: true }).innerText()).toContain("other");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "User group other" }).waitFor();
    await page.keyboard.press("Control+K");
    await type(field, "webh");
    await results.filter({ hasText: "Webhooks" }).waitFor();
    await page.getByText("1 result", { exact: true }).waitFor();
    // Speech input may trigger this shortcut by accident, so the user can turn off the shortcut.
    await tabTo("checkbox", "Open the search with the key /");
    await page.keyboard.press("Space");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await page.keyboard.press("/");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.keyboard.press("Control+K");
    await page.getByRole("dialog", { name: "Search" }).waitFor();
    await page.keyboard.press("Escape");
    await leave();
  });

  it("shows thousands of user groups while the user scrolls, with few elements and no blank rows", async () => {
    const environment = await newEnvironment("multivac");
    const count = 5000;
    const ids = Array.from({ length: count }, (_, i) => `group-${String(i).padStart(4, "0")}`);
    const longest = `${ids.pop()}-${"0123456789".repeat(9)}`;
    for (let i = 0; i < count; i += 500)
      await adminOf(server.url).importUserGroups({
        environment,
        userGroups: [...ids, longest]
          .slice(i, i + 500)
          .map((providedId) => ({ providedId, name: i < 4500 ? "" : `A long name of ${providedId}` })),
      });
    const hash = "#/groups?env=multivac%2FCustomer";
    const { page, signIn, leave } = await openConsole(browser, server.url, { hash });
    await signIn(ADMIN_TOKEN);
    const scrollTo = (top: number) => page.evaluate((y) => document.querySelector(".page")?.scrollTo(0, y), top);
    const rows = page.getByRole("row");
    const most: number[] = [];
    await waitFor("the last group is shown", async () => {
      await scrollTo(1e9);
      most.push(await rows.count());
      return (await page.getByRole("link", { name: longest, exact: true }).count()) > 0;
    });
    expect(Math.max(...most)).toBeLessThan(210);
    expect(await page.getByRole("table").getAttribute("aria-rowcount")).toBe("5001");
    const last = page.getByRole("row").filter({ hasText: longest });
    expect(await last.getAttribute("aria-rowindex")).toBe("5001");
    // After each scroll, every visible position has a row. `aria-rowindex` of a row is its position in the complete
    // table.
    const withoutBlanks = async () => (await rowsInSight(page)).blank === 0;
    for (const [top, id] of [
      [1000 * 44, "group-1000"],
      [4500 * 44, "group-4500"],
      [4900 * 44, "group-4900"],
      [400 * 44, "group-0400"],
    ] as const) {
      await scrollTo(top);
      await waitFor(`no position is blank at ${id}`, withoutBlanks);
      expect((await rowsInSight(page)).heights, `at ${id}`).toEqual([44]);
      await page.getByRole("link", { name: id, exact: true }).waitFor();
      expect(await page.getByRole("link", { name: longest, exact: true }).count()).toBe(0);
    }
    // The width of a column does not depend on the text of its cells. The whole text of a truncated cell appears on
    // hover.
    const { widths } = await rowsInSight(page);
    await scrollTo(4700 * 44);
    expect((await rowsInSight(page)).widths).toEqual(widths);
    await scrollTo(1e9);
    await waitFor("no position is blank at the end", withoutBlanks);
    expect(await rowsInSight(page)).toMatchObject({ heights: [44], widths });
    const name = last.getByRole("cell").first();
    await name.hover();
    expect(await name.getAttribute("title")).toBe(`A long name of ${longest}`);
    await leave();
  });

  it("the console shows the page of the URL after the sign-in if the token has access to the environment in the URL", async () => {
    await newEnvironment("hooli");
    const hash = "#/groups?env=hooli%2FCustomer&prefix=x";
    const { page, press, signIn } = await openConsole(browser, server.url, { hash });
    await signIn(ADMIN_TOKEN);
    await page.getByText("No user group has an id that starts with x.").waitFor();
    await press("button", "Sign out");
    await signIn(await adminToken(await newEnvironment("umbrella")));
    await page.getByText("The address names the environment hooli/Customer.").waitFor();
    await press("link", "Show this page of umbrella/Customer");
    await page.getByText("No user group has an id that starts with x.").waitFor();
    await page.goto(`${server.url}/console/#/nowhere`);
    await page.getByRole("heading", { name: "No such page" }).waitFor();
    await page.close();
  });

  it("works on METRICS_PORT, and shows the calls of both ports", async () => {
    const own = await newServer({ env: { ...ADMIN_ENV, METRICS_PORT: "0" } });
    const url = metricsUrlOf(own);
    await expect(grpcClients(own).viewers.resolveViewer({ token: "nobody's" })).rejects.toThrow();
    await expect(adminOf(url, "ugk_nobodys").getCaller({})).rejects.toThrow();
    const { page, type, press, says, signIn, leave } = await openConsole(browser, url);
    await signIn(ADMIN_TOKEN);
    await press("link", "Environments");
    await press("button", "New environment");
    await type("Name", "acme");
    await press("button", "Create");
    await says("Created the environment acme.");
    await press("link", "Overview");
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await row("GetCaller").waitFor();
    await row("ResolveViewer").waitFor();
    await page.getByText("TOKEN_NOT_FOUND").waitFor();
    await page.getByText("API_TOKEN_UNKNOWN").waitFor();
    const tile = async (term: string) => page.locator(".tiles > div", { hasText: term }).locator("dd").innerText();
    expect(await tile("Failed")).toMatch(/^\d+(\.\d)? %$/);
    expect(await tile("Highest p99")).toMatch(/^[\d.]+ (µs|ms|s)$/);
    expect(await tile("Workers")).toBe("1");
    await leave();
  });
});

function expectFocus(locator: Locator, what: string): Promise<boolean> {
  return waitFor(`${what} has the focus`, () => locator.evaluate((each) => each === document.activeElement));
}

/**
 * Measures a long table in the next frame. Returns the number of visible positions without a row, the heights of the
 * rows, and the widths of the columns.
 */
function rowsInSight(page: Page) {
  return page.evaluate(async () => {
    await new Promise(requestAnimationFrame);
    const box = (each: Element | null) => each?.getBoundingClientRect() ?? new DOMRect();
    const { top, bottom, left, width } = box(document.querySelector(".page"));
    const body = box(document.querySelector("tbody"));
    let blank = 0;
    for (let y = Math.max(top, body.top) + 1; y < Math.min(bottom, body.bottom); y += 20)
      if (!document.elementFromPoint(left + width / 2, y)?.closest("tr[aria-rowindex], thead")) blank++;
    const heights = [...document.querySelectorAll("tr[aria-rowindex]")].map((each) => Math.round(box(each).height));
    const widths = [...document.querySelectorAll("thead th")].map((each) => Math.round(box(each).width));
    return { blank, heights: [...new Set(heights)], widths };
  });
}

async function expectNowhere(page: Page, text: string): Promise<void> {
  expect(await page.evaluate(() => document.documentElement.outerHTML)).not.toContain(text);
  const values = page
    .locator("input, textarea")
    .evaluateAll((all) => all.map((each) => (each as HTMLInputElement).value));
  expect(await values).not.toContain(text);
}
