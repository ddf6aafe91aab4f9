import { waitFor } from "@user-group-service/testing/wait";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { formatEnvironmentName } from "../packages/operator/src/environment-name.ts";
import { adminOf, customerOf, issueToken, ROLE_VALUES } from "./support/admin.ts";
import { describeWithChromium, suiteBrowser } from "./support/chromium.ts";
import { openConsole, readUntil } from "./support/console.ts";
import { suiteServer } from "./support/opened.ts";
import { grpcClients } from "./support/rpc.ts";
import { ADMIN_ENV, ADMIN_TOKEN, newEnvironments } from "./support/server.ts";

describeWithChromium("the console, used by keyboard on the pages of an environment", () => {
  const browser = suiteBrowser();

  // The name of the environment is fixed, because screenshots show it.
  const server = suiteServer({ env: ADMIN_ENV, like: { ...newEnvironments(), environment: "acme" } });

  const env = () => {
    const { name } = customerOf(server);
    return `${name}/Customer`;
  };

  async function newApiToken(displayName: string, role: keyof typeof ROLE_VALUES = "admin") {
    const request = { environment: customerOf(server), displayName, role: ROLE_VALUES[role] };
    const { apiToken, token } = await adminOf(server.url).createApiToken(request);
    return { id: apiToken?.id ?? "", token };
  }

  const contentOf = (page: Page) => page.evaluate(() => document.documentElement.outerHTML);

  async function expectAccepted(token: string, isAccepted: boolean): Promise<void> {
    const requested = adminOf(server.url, token).getCaller({});
    if (isAccepted) await expect(requested).resolves.toBeDefined();
    else await expect(requested).rejects.toThrow("unknown, revoked or expired");
  }

  it("creates, changes, rotates and revokes API tokens, and shows each secret once", async () => {
    const { page, type, enter, press, says, alerts, checkViews, picture, signIn, choose, leave } = await openConsole(
      browser,
      server.url,
    );
    const signedIn = await newApiToken("the console");
    await signIn(signedIn.token);
    await press("link", "API tokens");
    await page.getByRole("table", { name: "All API tokens" }).waitFor();

    await press("button", "New API token");
    await press("button", "Create");
    await alerts("Give the API token a name");
    await type("Name", "a back end");
    await enter("Expires", "soon");
    await alerts("Expires must be a time such as");
    await type("Expires", "90d");
    await choose("Role", "read");
    await page.getByText("ugs token create --name 'a back end' --role read --expires 90d").waitFor();
    await press("button", "Create");
    await says("Created the API token a back end.");
    const token = await page.getByLabel("Token", { exact: true }).inputValue();
    await expectAccepted(token, true);
    await page.getByText("2 API tokens; the first expires at").waitFor();
    await press("button", "I have stored the token: close");
    expect(await contentOf(page)).not.toContain(token);

    await choose("Filter by role", "read");
    await page.getByRole("table", { name: "API tokens of role read" }).waitFor();
    await page.getByText("ugs token list --role read").waitFor();
    await page.getByRole("combobox", { name: "Filter by role" }).selectOption("");
    await page.getByRole("table", { name: "All API tokens" }).waitFor();
    await choose("Order", "Newest");
    expect(await page.getByRole("rowheader").first().innerText()).toContain("a back end");
    await picture("api tokens");

    const { apiTokens } = await adminOf(server.url).listApiTokens({ environment: customerOf(server) });
    const id = apiTokens.find(({ displayName }) => displayName === "a back end")?.id ?? "";
    await press("link", `a back end ${id}`);
    await page.getByRole("heading", { name: `API token ${id}` }).waitFor();
    await checkViews("API token");
    await press("button", "Edit");
    await type("Name", "the shop");
    await type("Expires", "never");
    await checkViews("edit an API token");
    await page.getByText(`ugs token update --name 'the shop' --expires never ${id}`).waitFor();
    await press("button", "Save");
    await says(`Saved the API token ${id}.`);
    await page.getByRole("definition").filter({ hasText: "the shop" }).waitFor();
    await page
      .getByRole("definition")
      .filter({ hasText: /^never$/ })
      .first()
      .waitFor();

    await press("button", "Rotate");
    await enter("Grace period", "31d");
    await alerts("previous_token_ttl");
    await enter("Grace period", "1h");
    await says(`Rotated the API token ${id}.`);
    const rotated = await page.getByLabel("Token", { exact: true }).inputValue();
    await page.getByRole("term").filter({ hasText: "Old secret valid until" }).waitFor();
    for (const each of [token, rotated]) await expectAccepted(each, true);
    await press("button", "I have stored the token: close");
    expect(await contentOf(page)).not.toContain(rotated);

    // If the grace period is 0, the rotation immediately revokes the secret in use. So the console requires a
    // confirmation.
    await press("button", "Rotate");
    await type("Grace period", "0s");
    await enter(`To continue, type ${id}`, id);
    await says(`Rotated the API token ${id}.`);
    await expectAccepted(rotated, false);
    await press("button", "I have stored the token: close");

    await press("button", "Revoke");
    await checkViews("revoke an API token");
    await page.getByRole("dialog").getByText("ugs group revoke --all").waitFor();
    await enter(`To continue, type ${id}`, "all of them");
    await page.getByText("nothing was done").waitFor();
    await enter(`To continue, type ${id}`, id);
    await says("Revoked 1 API token.");
    for (const each of [token, rotated]) await expectAccepted(each, false);
    await page.getByRole("table", { name: "All API tokens" }).waitFor();

    await press("link", `the console ${signedIn.id}`);
    await page.getByText("You are signed in with this API token").waitFor();
    await press("button", "Revoke");
    await enter(`To continue, type ${signedIn.id}`, signedIn.id);
    await page.getByText(`You were signed in with ${signedIn.id}`).waitFor();
    await leave();
  });

  it("finds an API token of any environment by its secret or id, if the user has signed in with ADMIN_TOKEN", async () => {
    const { page, enter, press, says, alerts, checkViews, signIn, leave } = await openConsole(browser, server.url, {
      hash: "#/tokens",
    });
    const leaked = await newApiToken("leaked", "read");
    await signIn(ADMIN_TOKEN);
    await page.getByText("choose an environment").waitFor();
    const field = "An API token, or its id";
    await enter(field, "ugk_nobodys");
    await alerts("not_found, API_TOKEN_NOT_FOUND");
    await enter(field, leaked.token);
    await says("Found the API token. The page no longer contains the pasted text.");
    expect(await page.getByLabel(field).inputValue()).toBe("");
    expect(await contentOf(page)).not.toContain(leaked.token);
    await page.getByRole("definition").filter({ hasText: env() }).waitFor();
    await checkViews("look up an API token");
    await press("link", `Rotate or revoke ${leaked.id}`);
    await page.getByRole("heading", { name: `API token ${leaked.id}` }).waitFor();
    await press("button", "Rotate");
    await page.getByText(`ugs token rotate --grace 0s --env ${env()} ${leaked.id}`).waitFor();
    await press("button", "Cancel");
    await press("link", "Its audit events");
    await page.getByText(`ugs audit --actor ${leaked.id} --env ${env()}`).waitFor();
    await page.getByText("No event matches the filter.").waitFor();
    await page.goBack();
    await press("link", "All API tokens");
    await enter(field, leaked.id);
    await page.getByRole("heading", { name: `API token ${leaked.id}` }).waitFor();
    await press("link", "All API tokens");
    // An entry of API_TOKENS can be changed only in the settings.
    await enter(field, server.tokens.customer);
    await page.getByText("Remove this API token from the settings of the service.").waitFor();
    await leave();
  });

  it("filters the audit trail, and polls for new events only while the page is visible", async () => {
    const { page, type, enter, press, says, alerts, checkViews, picture, signIn, leave } = await openConsole(
      browser,
      server.url,
      { hasClock: true },
    );
    const { token, id } = await newApiToken("an auditor");
    await newApiToken("for another filter", "read");
    await signIn(token);
    await press("link", "Audit");
    await page.getByRole("table", { name: "All events" }).waitFor();
    await picture("audit");
    await enter("Since", "yesterday");
    await alerts("Since must be a time such as");
    await type("Since", "1h");
    await type("Method", "RevokeApiToken");
    await enter("Done by", id);
    await page.getByText("No event matches the filter.").waitFor();
    await page.getByText(`ugs audit --actor ${id} --method RevokeApiToken --since 1h`).waitFor();
    // If a filter matches few events, the service returns pages with few events. The console combines these pages. To
    // simulate such pages, the test sets the page size to 1.
    await page.route("**/ListAuditEvents", async (route) => {
      const request = { ...(route.request().postDataJSON() as object), pageSize: 1 };
      await route.continue({ postData: JSON.stringify(request) });
    });
    await type("Since", "");
    await type("Done by", "");
    await enter("Method", "CreateApiToken");
    const createdNow = page.getByRole("row").filter({ hasText: "for another filter" });
    await createdNow.waitFor();
    expect(await page.getByRole("row").filter({ hasText: "CreateApiToken" }).count()).toBeGreaterThan(1);
    expect(await page.getByRole("button", { name: "Show more" }).count()).toBe(0);
    await page.unroute("**/ListAuditEvents");
    await type("Method", "RevokeApiToken");
    await enter("Done by", id);
    await page.getByText("No event matches the filter.").waitFor();
    await press("button", "Follow");
    await page.getByText("No event matches the filter yet.").waitFor();
    const admin = adminOf(server.url, token);
    const events = page.getByRole("row").filter({ hasText: "RevokeApiToken" });
    const revoke = async () => {
      const { id: apiTokenId } = await newApiToken("short of life", "read");
      await admin.revokeApiToken({ apiTokenId });
      return apiTokenId;
    };
    const first = await revoke();
    await readUntil(page, "ListAuditEvents", events.filter({ hasText: first }));
    await says("1 new event");

    const setVisible = (visibilityState: "hidden" | "visible") =>
      page.evaluate((value) => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, visibilityState);
    await setVisible("hidden");
    await page.getByText("Paused while the page is hidden.").waitFor();
    let calls = 0;
    page.on("request", () => void calls++);
    const second = await revoke();
    await page.clock.fastForward(60_000);
    // While the page is hidden, the console must request no events. A wrong request would start within one frame.
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
    expect(calls).toBe(0);
    await setVisible("visible");
    await events.filter({ hasText: second }).waitFor();
    expect(await events.count()).toBe(2);
    await checkViews("audit followed");
    await press("button", "Stop following");
    await page.getByRole("table", { name: "Events that match the filter" }).waitFor();
    await press("link", first);
    await page.getByText("No API token of this environment has this id.").waitFor();

    // If the user has no access to the audit trail any more, the console shows an error and stops polling.
    await press("link", "Audit");
    await press("button", "Follow");
    await page.getByRole("table", { name: "Events as they arrive" }).waitFor();
    await admin.revokeApiToken({ apiTokenId: id });
    await readUntil(page, "ListAuditEvents", page.getByText("Following has stopped."));
    await leave();
  });

  it("keeps typed text after a proxy error, a lost request or a token revocation, and continues with another token", async () => {
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "globex" });
    const { page, type, enter, press, says, checkViews, signIn, leave } = await openConsole(browser, server.url, {
      hash: "#/group?id=globex",
    });
    const first = await newApiToken("until tonight");
    await signIn(first.token);
    await page.getByRole("link", { name: "Its audit events" }).waitFor();
    const name = page.getByLabel("Name", { exact: true });
    await press("button", "Edit");
    await type("Name", "Globex Corp.");
    const alert = (text: string) => page.getByRole("alert").filter({ hasText: text });
    await page.route("**/UpdateUserGroup", (route) =>
      route.fulfill({ status: 503, headers: { "retry-after": "7" }, body: "<html>a proxy</html>" }),
    );
    await press("button", "Save");
    await alert("with HTTP 503").filter({ hasText: "Try again in 7 seconds." }).waitFor();
    await page.unroute("**/UpdateUserGroup");
    await page.route("**/UpdateUserGroup", (route) => route.abort());
    await press("button", "Save");
    await alert("The service could not be reached").filter({ hasText: "Your input is still here." }).waitFor();
    await page.unroute("**/UpdateUserGroup");

    // Another user revokes the token. The open dialog reports the revocation, and offers to sign in again.
    const revoke = ({ id: apiTokenId }: { readonly id: string }) =>
      adminOf(server.url).revokeApiToken({ environment: customerOf(server), apiTokenId });
    await revoke(first);
    await press("button", "Save");
    const ended = "The token you signed in with is no longer valid.";
    await page.getByRole("dialog").getByRole("alert").filter({ hasText: ended }).waitFor();
    await press("button", "Sign in again …");
    await checkViews("sign in again");
    const field = "ADMIN_TOKEN, or an API token of role admin";
    await enter(field, first.token);
    await alert("unknown, revoked or expired").waitFor();
    const second = await newApiToken("until tomorrow");
    // After the sign-in, the page reads the user group again, and must not overwrite the change of another user.
    await groups.updateUserGroup({ userGroupId: "globex", name: "Globex" });
    await enter(field, second.token);
    await says("You are signed in again.");
    expect(await name.inputValue()).toBe("Globex Corp.");
    await page.getByRole("dialog").getByText("Somebody else has changed these values").waitFor();
    await press("button", "Save");
    await alert("Somebody else changed the user group in the meantime.").waitFor();
    await press("button", "Save");
    await says("Saved name of the user group globex.");

    // After the revocation, the page reads the group again. The test delays the response. The next save must use the
    // etag in this response.
    let isReadAnew = false;
    await page.route("**/LookupUserGroup", async (route) => {
      const response = await route.fetch();
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
      isReadAnew = true;
      await route.fulfill({ response });
    });
    await press("button", "Revoke its tokens");
    await enter("To continue, type globex", "globex");
    await says("Revoked the tokens of the user group globex.");
    expect(isReadAnew).toBe(true);
    await page.unroute("**/LookupUserGroup");
    await press("button", "Edit");
    await type("Name", "Globex Ltd.");
    await press("button", "Save");
    await says("Saved name of the user group globex.");

    // The user signs in with a token of another environment. The page then shows that environment, which does not
    // contain this group.
    await press("button", "Edit");
    await type("Name", "Globex Inc.");
    await revoke(second);
    await press("button", "Save");
    await page
      .getByRole("form", { name: "Edit the user group" })
      .getByRole("alert")
      .filter({ hasText: ended })
      .waitFor();
    expect(await page.getByRole("alert").count()).toBe(1);
    await press("button", "Sign in again …");
    const environment = { ...customerOf(server), tag: ApiEnvironmentTag.TESTING };
    const request = { environment, displayName: "elsewhere", role: ROLE_VALUES.admin };
    await type(field, (await adminOf(server.url).createApiToken(request)).token);
    await page.keyboard.press("Enter");
    await alert("USER_GROUP_NOT_FOUND").waitFor();
    expect(await name.count()).toBe(0);
    await leave();
  });

  it("shows charts and tables of the calls of the last hour, for all methods, for one method, or for an environment", async () => {
    const environment = customerOf(server);
    const name = formatEnvironmentName(environment);
    const unauthenticated = adminOf(server.url, "ugk_nobodys");
    await expect(unauthenticated.getCaller({})).rejects.toThrow();
    const { groups } = grpcClients(server);
    for (let i = 0; i < 5; i++) await groups.getUserGroup({ userGroupId: "charted" });
    const { page, press, choose, checkViews, signIn, leave } = await openConsole(browser, server.url, {
      hash: "#/overview",
    });
    await signIn(ADMIN_TOKEN);
    // The page reads the samples every ten seconds.
    await page.getByRole("row").filter({ hasText: "GetUserGroup" }).filter({ visible: true }).waitFor();
    const charts = page.getByRole("figure");
    expect(await charts.count()).toBeGreaterThanOrEqual(5);
    await charts.first().locator("canvas").waitFor();
    await page.getByText("API_TOKEN_UNKNOWN").waitFor();
    await checkViews("the overview");

    // A user who has no mouse moves through the samples with the arrow keys.
    const values = page.locator(".chart-values").first();
    await values.getByText("Latest").waitFor();
    await charts.first().focus();
    await page.keyboard.press("ArrowLeft");
    await values.getByText(/^At /).waitFor();
    await press("button", "Table of Errors");
    const table = page.getByRole("table", { name: "Errors: mean of each minute" });
    await table.getByRole("columnheader", { name: "API_TOKEN_UNKNOWN" }).waitFor();
    expect(await table.getByRole("rowheader").count()).toBeGreaterThan(0);

    const box = await charts.first().locator(".u-over").boundingBox();
    if (!box) throw new Error("the chart is not visible");
    await page.mouse.move(box.x + box.width * 0.2, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, box.y + 20, { steps: 4 });
    await page.mouse.up();
    await page.getByText("Double-click a chart").waitFor();
    await checkViews("the zoomed overview");
    await press("button", "Last hour");
    await page.getByText("Drag over a chart to zoom.").waitFor();

    await choose("Show the calls of", "GetUserGroup");
    await page.getByText("Calls of GetUserGroup in the last hour").waitFor();
    expect(await page.getByText("Redis round trips").count()).toBe(0);
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByText(`Calls of ${name} in the last hour`).waitFor();
    await charts.first().waitFor();

    // Simulate that another worker process answers the requests. Later, simulate that the requests fail.
    await page.route("**/GetMetricsHistory", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), instance: crypto.randomUUID() } });
    });
    await page.getByText("Another process has answered").waitFor();
    await page.route("**/GetMetricsHistory", (route) => route.abort());
    await page.getByRole("alert").waitFor();
    // The page makes no changes, so the error must not ask the user to check a change.
    expect(await page.getByRole("alert").innerText()).not.toContain("change");
    expect(await charts.count()).toBeGreaterThan(0);
    await leave();
  });

  it("shows refused calls in the charts of a busy hour", async () => {
    const { page, picture, signIn, leave } = await openConsole(browser, server.url, { hash: "#/overview" });
    await page.route("**/GetMetricsHistory", (route) => route.fulfill({ json: busyHour() }));
    await signIn(ADMIN_TOKEN);
    await page.getByText("refused: queue-full").waitFor();
    await picture("overview");
    await leave();
  });

  it("shows only the calls of one environment if the user has signed in with an API token of role admin", async () => {
    const { page, signIn, leave } = await openConsole(browser, server.url, { hash: "#/overview" });
    await signIn((await issueToken(server, "admin")).token);
    await page.getByRole("figure").first().waitFor();
    await page.getByText(`Calls of ${formatEnvironmentName(customerOf(server))} in the last hour`).waitFor();
    expect(await page.getByRole("combobox").count()).toBe(0);
    expect(await page.getByText("Redis round trips").count()).toBe(0);
    await leave();
  });

  it("revokes viewer sessions of a group or viewer, and rotates signing keys", async () => {
    const { page, type, enter, press, says, alerts, checkViews, picture, signIn, leave } = await openConsole(
      browser,
      server.url,
      { hash: "#/sessions" },
    );
    const { groups, viewers } = grpcClients(server);
    const userGroupId = "a dashboard";
    await groups.getUserGroup({ userGroupId });
    const newSession = async (viewerId: string) => {
      const group = { case: "userGroupId", value: userGroupId } as const;
      return (await viewers.createViewerSession({ group, audience: "https://a.example.com", viewerId })).session;
    };
    const [ofAnn, ofBob] = [await newSession("ann"), await newSession("bob")];
    const expectAlive = async (session: string, isAlive: boolean) => {
      const requested = viewers.resolveViewer({ token: session });
      if (isAlive) await expect(requested).resolves.toBeDefined();
      else await expect(requested).rejects.toThrow();
    };

    await signIn((await newApiToken("the console")).token);
    await page.getByRole("table", { name: "The keys that sign viewer sessions" }).waitFor();
    await page.getByText("Only ADMIN_TOKEN can rotate signing keys.").waitFor();
    await press("button", "Revoke them …");
    await alerts("Give the id of the user group.");
    await enter("User group", "nobody's");
    await enter("To continue, type nobody's", "nobody's");
    await alerts("USER_GROUP_NOT_FOUND");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await type("Viewer", "ann");
    await type("User group", userGroupId);
    await page.getByText(`ugs viewer session revoke --viewer ann '${userGroupId}'`).waitFor();
    await page.keyboard.press("Enter");
    await checkViews("end viewer sessions");
    await enter("To continue, type ann", "ann");
    await says(`Revoked the viewer sessions of the viewer ann of ${userGroupId}.`);
    await expectAlive(ofAnn, false);
    await expectAlive(ofBob, true);
    await press("button", "Sign out");

    await signIn(ADMIN_TOKEN);
    await press("link", "Environments");
    await press("link", env());
    await press("link", "Viewer sessions");
    const keys = page.getByRole("rowheader");
    await keys.first().waitFor();
    const before = await keys.allInnerTexts();
    await press("button", "Rotate to the next key");
    await says("No session is revoked.");
    await expectAlive(ofBob, true);
    await picture("viewer sessions");
    await press("button", "Replace all keys, and revoke every session …");
    await page.getByText(`ugs signing-key rotate --end-sessions --env ${env()}`).waitFor();
    await enter(`To continue, type ${env()}`, env());
    await says(`Revoked the viewer sessions of ${env()}.`);
    await expectAlive(ofBob, false);
    await waitFor("the new keys are shown", async () => {
      const after = await keys.allInnerTexts();
      return after.length > 0 && after.every((key) => !before.includes(key));
    });
    await leave();
  });
});

/** Returns a JSON response of GetMetricsHistory for one hour. In this hour, the load has a peak with refused calls. */
function busyHour() {
  const last = Math.floor(Date.now() / 10_000) * 10_000;
  const samples = Array.from({ length: 360 }, (_, i) => {
    const peak = Math.exp(-(((i - 250) / 14) ** 2));
    const wave = 1 + 0.35 * Math.sin(i / 29) + 0.12 * Math.sin(i * 1.7) + 0.06 * Math.sin(i * 5.3);
    const calls = Math.round(9000 * (wave + 2.4 * peak));
    const refused = Math.round(Math.max(0, peak - 0.3) * 2600);
    const seconds = (base: number) => `${(base * (1 + 0.2 * Math.sin(i * 2.3)) * (1 + 6 * peak)).toFixed(6)}s`;
    const trips = { get: Math.round(calls * 0.8), resolve: Math.round(calls * 0.4), update: Math.round(calls * 0.05) };
    const errors = { USER_GROUP_NOT_FOUND: Math.round(40 * wave), TOKEN_NOT_FOUND: 12, OVERLOADED: refused };
    return {
      endTime: new Date(last - (359 - i) * 10_000).toISOString(),
      ...{ calls, errors, p50: seconds(0.0011), p99: seconds(0.009) },
      service: {
        ...{ workers: 4, callsInFlight: Math.round(30 * wave), memoryMib: 410 },
        ...{ queueLength: Math.round(peak * 180), queuedCalls: Math.round(peak * 4000) },
        refusals: { "queue-full": refused },
        ...{ redisRoundTrips: trips, redisP50: seconds(0.0003), redisP99: seconds(0.0018) },
      },
    };
  });
  const sum = (calls: number, failedCalls: number, p99: string) => ({ calls, failedCalls, p99 });
  return {
    instance: "one",
    samples,
    methods: [
      { method: "GetUserGroup", ...sum(2_412_907, 14_820, "0.0084s") },
      { method: "ResolveViewer", ...sum(1_180_344, 4320, "0.0061s") },
      { method: "UpdateUserGroup", ...sum(150_218, 96, "0.0137s") },
    ],
    environments: ["acme", "initech", "umbrella"].map((name, i) => ({
      environment: { name, tag: "API_ENVIRONMENT_TAG_CUSTOMER" },
      ...sum(Math.round(2_100_000 / (i + 1)), Math.round(9000 / (i + 1)), "0.0082s"),
    })),
  };
}
