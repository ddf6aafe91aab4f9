import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { adminOf, customerOf, presenting, ROLE_VALUES } from "./support/admin.ts";
import { startChromium, type TestBrowser } from "./support/chromium.ts";
import { openConsole, readUntil, type TestConsole } from "./support/console.ts";
import { suiteServer } from "./support/opened.ts";
import { ADMIN_ENV, ADMIN_TOKEN, newEnvironments } from "./support/server.ts";
import { waitFor } from "./support/wait.ts";

const chromiumPath = inject("chromiumPath");

describe.skipIf(chromiumPath === undefined)("what the console shows of an environment, by keyboard alone", () => {
  let browser: TestBrowser;
  beforeAll(async () => {
    browser = await startChromium(chromiumPath ?? "");
  });
  afterAll(() => browser?.close());

  // Their name is in pictures.
  const server = suiteServer({ env: ADMIN_ENV, like: { ...newEnvironments(), environment: "acme" } });

  /** The environment that all of these tests are of, as addresses have it. */
  const env = () => {
    const { name } = customerOf(server);
    return `${name}/Customer`;
  };

  /** Makes an API token of it. */
  async function newApiToken(displayName: string, role: keyof typeof ROLE_VALUES = "admin") {
    const request = { environment: customerOf(server), displayName, role: ROLE_VALUES[role] };
    const { apiToken, token } = await adminOf(server.url).createApiToken(request);
    return { id: apiToken?.id ?? "", token };
  }

  const contentOf = ({ page }: TestConsole) => page.evaluate(() => document.documentElement.outerHTML);

  /** Expects that a token is accepted, or not. */
  async function expectAccepted(token: string, isAccepted: boolean): Promise<void> {
    const asked = adminOf(server.url, token).getCaller({});
    if (isAccepted) await expect(asked).resolves.toBeDefined();
    else await expect(asked).rejects.toThrow("unknown, revoked or expired");
  }

  it("makes, changes, rotates and revokes API tokens, and shows each text once", async () => {
    const tested = await openConsole(browser, server.url);
    const { page, type, press, says, look, picture, signIn, tabTo } = tested;
    const signedIn = await newApiToken("the console");
    await signIn(signedIn.token);
    await press("link", "API tokens");
    await page.getByRole("table", { name: "All API tokens" }).waitFor();

    await press("button", "Make");
    await page.getByRole("alert").filter({ hasText: "Give it a name" }).waitFor();
    await type("Name", "a back end");
    await type("Expires", "soon");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "Expires is a time such as" }).waitFor();
    await type("Expires", "90d");
    await tabTo("combobox", "Role");
    await page.keyboard.type("read");
    await page.getByText("ugs token create --name 'a back end' --role read --expires 90d").waitFor();
    await press("button", "Make");
    await says("The API token a back end is made.");
    const token = await page.getByLabel("Token", { exact: true }).inputValue();
    await expectAccepted(token, true);
    await page.getByText("2 API tokens; the first expires at").waitFor();
    await press("button", "I have it: forget it here");
    expect(await contentOf(tested)).not.toContain(token);

    await tabTo("combobox", "Of role");
    await page.keyboard.type("read");
    await page.getByRole("table", { name: "API tokens of role read" }).waitFor();
    await page.getByText("ugs token list --role read").waitFor();
    await page.getByRole("combobox", { name: "Of role" }).selectOption("");
    await page.getByRole("table", { name: "All API tokens" }).waitFor();
    await tabTo("combobox", "Order");
    await page.keyboard.type("The newest");
    expect(await page.getByRole("rowheader").first().innerText()).toContain("a back end");
    await picture("api tokens");

    const { apiTokens } = await adminOf(server.url).listApiTokens({ environment: customerOf(server) });
    const id = apiTokens.find(({ displayName }) => displayName === "a back end")?.id ?? "";
    await press("link", `a back end ${id}`);
    await page.getByRole("heading", { name: `API token ${id}` }).waitFor();
    await look("API token");
    await type("Name", "the shop");
    await type("Expires", "never");
    await page.getByText(`ugs token update --name 'the shop' --expires never ${id}`).waitFor();
    await press("button", "Save");
    await says(`The API token ${id} is changed.`);
    await page.getByRole("definition").filter({ hasText: "the shop" }).waitFor();
    expect(await page.getByLabel("Expires").inputValue()).toBe("never");

    await type("Grace", "31d");
    await page.keyboard.press("Enter");
    await page.getByText("30d, which is the longest").waitFor();
    await type("Grace", "1h");
    await page.keyboard.press("Enter");
    await says(`The API token ${id} has a new text`);
    const rotated = await page.getByLabel("Token", { exact: true }).inputValue();
    await page.getByRole("term").filter({ hasText: "Text before until" }).waitFor();
    for (const each of [token, rotated]) await expectAccepted(each, true);
    await press("button", "I have it: forget it here");
    expect(await contentOf(tested)).not.toContain(rotated);

    await press("button", "Revoke the API token …");
    await look("revoke an API token");
    await type(`To go on, type ${id}`, "all of them");
    await page.keyboard.press("Enter");
    await page.getByText("nothing was done").waitFor();
    await type(`To go on, type ${id}`, id);
    await page.keyboard.press("Enter");
    await says("1 API token ended.");
    for (const each of [token, rotated]) await expectAccepted(each, false);
    await page.getByRole("table", { name: "All API tokens" }).waitFor();

    // The one that is signed in: whoever ends it is signed out.
    await press("link", `the console ${signedIn.id}`);
    await page.getByText("You are signed in with this one").waitFor();
    await press("button", "Revoke the API token …");
    await type(`To go on, type ${signedIn.id}`, signedIn.id);
    await page.keyboard.press("Enter");
    await page.getByText(`You were signed in with ${signedIn.id}`).waitFor();
    await tested.expectClean();
    await page.close();
  });

  it("says which API token a text or an id is, of any environment to ADMIN_TOKEN", async () => {
    const tested = await openConsole(browser, server.url, { hash: "#/tokens" });
    const { page, type, press, says, look, signIn } = tested;
    const leaked = await newApiToken("leaked", "read");
    await signIn(ADMIN_TOKEN);
    await page.getByText("choose one").waitFor();
    const field = "An API token, or its id";
    await type(field, "ugk_nobodys");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "not_found, API_TOKEN_NOT_FOUND" }).waitFor();
    await type(field, leaked.token);
    await page.keyboard.press("Enter");
    await says("What was pasted is forgotten here.");
    expect(await page.getByLabel(field).inputValue()).toBe("");
    expect(await contentOf(tested)).not.toContain(leaked.token);
    await page.getByRole("definition").filter({ hasText: env() }).waitFor();
    await look("look up an API token");
    await press("link", `Rotate or revoke ${leaked.id}`);
    await page.getByRole("heading", { name: `API token ${leaked.id}` }).waitFor();
    await page.getByText(`ugs token rotate --env ${env()} ${leaked.id}`).waitFor();
    await press("link", "What was done with it");
    await page.getByText(`ugs audit --actor ${leaked.id} --env ${env()}`).waitFor();
    await page.getByText("There is no such event.").waitFor();
    await page.goBack();
    await press("link", "All API tokens");
    await type(field, leaked.id);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `API token ${leaked.id}` }).waitFor();
    await press("link", "All API tokens");
    // One of the settings is changed there.
    await type(field, server.tokens.customer);
    await page.keyboard.press("Enter");
    await page.getByText("It is changed where the settings of the service are").waitFor();
    await tested.expectClean();
    await page.close();
  });

  it("filters the audit trail, and follows it, but not while the page is hidden", async () => {
    const tested = await openConsole(browser, server.url, { hasClock: true });
    const { page, type, press, says, look, picture, signIn } = tested;
    const { token, id } = await newApiToken("an auditor");
    await newApiToken("for another filter", "read");
    await signIn(token);
    await press("link", "Audit");
    await page.getByRole("table", { name: "All events" }).waitFor();
    await picture("audit");
    await type("Since", "yesterday");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "Since is a time such as" }).waitFor();
    await type("Since", "1h");
    await type("Method", "RevokeApiToken");
    await type("Done by", id);
    await page.keyboard.press("Enter");
    await page.getByText("There is no such event.").waitFor();
    await page.getByText(`ugs audit --actor ${id} --method RevokeApiToken --since 1h`).waitFor();
    await press("button", "Follow");
    await page.getByText("There is no such event yet.").waitFor();
    const admin = adminOf(server.url, token);
    const events = page.getByRole("row").filter({ hasText: "RevokeApiToken" });
    const revoke = async () => {
      const { id: apiTokenId } = await newApiToken("short of life", "read");
      await admin.revokeApiToken({ apiTokenId });
      return apiTokenId;
    };
    const first = await revoke();
    await readUntil(page, "audit", events.filter({ hasText: first }));
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
    // Who would ask has asked by the time of another frame.
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
    expect(calls).toBe(0);
    await setVisible("visible");
    await events.filter({ hasText: second }).waitFor();
    expect(await events.count()).toBe(2);
    await look("audit followed");
    await press("button", "Stop following");
    await page.getByRole("table", { name: "Events of this filter" }).waitFor();
    await press("link", first);
    await page.getByText("There is no API token of this id here").waitFor();

    // Whoever may read it no longer is told so, and asks no more.
    await press("link", "Audit");
    await press("button", "Follow");
    await page.getByRole("table", { name: "Events as they come" }).waitFor();
    await admin.revokeApiToken({ apiTokenId: id });
    await readUntil(page, "audit", page.getByText("It is followed no longer."));
    await tested.expectClean();
    await page.close();
  });

  it("keeps what is typed where a proxy answers, nobody does, or the token is taken no longer, and goes on with another", async () => {
    const transport = createConnectTransport({ baseUrl: server.url, httpVersion: "1.1" });
    const groups = createClient(UserGroupService, presenting(transport, server.tokens.customer));
    await groups.getUserGroup({ userGroupId: "globex" });
    const tested = await openConsole(browser, server.url, { hash: "#/group?id=globex" });
    const { page, type, press, says, look, signIn } = tested;
    const first = await newApiToken("until tonight");
    await signIn(first.token);
    await page.getByRole("link", { name: "Its audit events" }).waitFor();
    const name = page.getByLabel("Name", { exact: true });
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
    await alert("The service could not be reached").filter({ hasText: "What you typed is still here." }).waitFor();
    await page.unroute("**/UpdateUserGroup");

    // Revoked meanwhile, by somebody else: it is seen in a dialog, over which the other one is asked for.
    const revoke = ({ id: apiTokenId }: { readonly id: string }) =>
      adminOf(server.url).revokeApiToken({ environment: customerOf(server), apiTokenId });
    await revoke(first);
    await press("button", "Revoke its tokens …");
    await type("To go on, type globex", "globex");
    await page.keyboard.press("Enter");
    const ended = "The token that you are signed in with is not taken any longer.";
    await alert(ended).waitFor();
    await press("button", "Sign in again …");
    await look("sign in again");
    const field = "ADMIN_TOKEN, or an API token of role admin";
    await type(field, first.token);
    await page.keyboard.press("Enter");
    await alert("unknown, revoked or expired").waitFor();
    const second = await newApiToken("until tomorrow");
    await type(field, second.token);
    await page.keyboard.press("Enter");
    await says("You are signed in again.");
    await type("To go on, type globex", "globex");
    await page.keyboard.press("Enter");
    await says("The tokens of the user group globex have ended.");
    expect(await name.inputValue()).toBe("Globex Corp.");
    await press("button", "Save");
    await says("The user group globex has another name.");

    // What a token of another environment may see is another page.
    await type("Name", "Globex Ltd.");
    await revoke(second);
    await press("button", "Save");
    await alert(ended).first().waitFor();
    await press("button", "Sign in again …");
    const environment = { ...customerOf(server), tag: ApiEnvironmentTag.TESTING };
    const request = { environment, displayName: "elsewhere", role: ROLE_VALUES.admin };
    await type(field, (await adminOf(server.url).createApiToken(request)).token);
    await page.keyboard.press("Enter");
    await alert("USER_GROUP_NOT_FOUND").waitFor();
    expect(await name.count()).toBe(0);
    await tested.expectClean();
    await page.close();
  });

  it("draws an overview from the metrics, and says where they cannot be had", async () => {
    const tested = await openConsole(browser, server.url, { hash: "#/overview", hasClock: true });
    const { page, press, picture, signIn } = tested;
    await signIn(ADMIN_TOKEN);
    await page.getByText("Measuring: the figures come with the second reading.").waitFor();
    const stranger = adminOf(server.url, "ugk_nobodys");
    await readUntil(page, "metrics", page.getByRole("term").filter({ hasText: "Measured over" }));
    for (let i = 0; i < 5; i++) await adminOf(server.url).listEnvironments({});
    await expect(stranger.getCaller({})).rejects.toThrow();
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await readUntil(page, "metrics", row("ListEnvironments"));
    await row("Unauthenticated").filter({ hasText: "GetCaller" }).waitFor();
    await picture("overview");

    let status = 404;
    await page.route("**/metrics", (route) => route.fulfill({ status, body: "<html>a proxy</html>" }));
    const alert = page.getByRole("alert");
    await readUntil(page, "metrics", alert.filter({ hasText: "/metrics answered 404" }));
    status = 200;
    await readUntil(page, "metrics", alert.filter({ hasText: "are not the metrics of the service" }));
    // Another process.
    await page.unroute("**/metrics");
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const other = text.replace(/^(process_start_time_seconds) .*/m, "$1 1");
    await page.route("**/metrics", (route) => route.fulfill({ body: other, contentType: "text/plain" }), { times: 1 });
    await readUntil(page, "metrics", page.getByText("Another process answers than before"));
    expect(await alert.count()).toBe(0);
    await press("link", "Environments");
    await tested.expectClean();
    await page.close();
  });

  it("ends viewer sessions of a group or of a viewer, and rotates the keys that sign them", async () => {
    const tested = await openConsole(browser, server.url, { hash: "#/sessions" });
    const { page, type, press, says, look, picture, signIn } = tested;
    const transport = createConnectTransport({ baseUrl: server.url, httpVersion: "1.1" });
    const presented = presenting(transport, server.tokens.customer);
    const userGroupId = "a dashboard";
    await createClient(UserGroupService, presented).getUserGroup({ userGroupId });
    const viewers = createClient(ViewerService, presented);
    const newSession = async (viewerId: string) => {
      const group = { case: "userGroupId", value: userGroupId } as const;
      return (await viewers.createViewerSession({ group, audience: "https://a.example.com", viewerId })).session;
    };
    const [ofAnn, ofBob] = [await newSession("ann"), await newSession("bob")];
    const expectAlive = async (session: string, isAlive: boolean) => {
      const asked = viewers.resolveViewer({ token: session });
      if (isAlive) await expect(asked).resolves.toBeDefined();
      else await expect(asked).rejects.toThrow();
    };

    await signIn((await newApiToken("the console")).token);
    await page.getByRole("table", { name: "The keys that sign viewer sessions" }).waitFor();
    await page.getByText("ADMIN_TOKEN alone rotates signing keys").waitFor();
    await press("button", "End them …");
    await page.getByRole("alert").filter({ hasText: "Give the id of the user group." }).waitFor();
    await type("User group", "nobody's");
    await page.keyboard.press("Enter");
    await type("To go on, type nobody's", "nobody's");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "USER_GROUP_NOT_FOUND" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await type("Viewer", "ann");
    await type("User group", userGroupId);
    await page.getByText(`ugs viewer session revoke --viewer ann '${userGroupId}'`).waitFor();
    await page.keyboard.press("Enter");
    await look("end viewer sessions");
    await type("To go on, type ann", "ann");
    await page.keyboard.press("Enter");
    await says(`The viewer sessions of the viewer ann of ${userGroupId} have ended.`);
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
    await press("button", "Have the next key sign");
    await says("No session ends.");
    await expectAlive(ofBob, true);
    await picture("viewer sessions");
    await press("button", "Replace all keys, and end every session …");
    await page.getByText(`ugs signing-key rotate --end-sessions --env ${env()}`).waitFor();
    await type(`To go on, type ${env()}`, env());
    await page.keyboard.press("Enter");
    await says(`The viewer sessions of ${env()} have ended.`);
    await expectAlive(ofBob, false);
    await waitFor("the new keys are shown", async () => {
      const after = await keys.allInnerTexts();
      return after.length > 0 && after.every((key) => !before.includes(key));
    });
    await tested.expectClean();
    await page.close();
  });
});
