import { closeLater, forSuite } from "@user-group-service/testing/opened";
import { movableClock, waitUntilSaid } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { decodeJwt } from "jose";
import type { BrowserContext, Page, Request, Response } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { adminOf, customerOf } from "../support/admin.ts";
import { describeWithChromium, servePage, stopClock, suiteBrowser } from "../support/chromium.ts";
import { sharedServer } from "../support/opened.ts";
import { grpcClients } from "../support/rpc.ts";
import { copyExample, packClient, settingsOf, startExample } from "./example.ts";
import { overHttp } from "./over-http.ts";

/** Lifetime of a session in the example, and the clock difference that the example accepts, in milliseconds. */
const LIFE_MS = 60_000;
const TOLERANCE_MS = 5000;

/**
 * Number of milliseconds by which the test moves the clock of the host forward, so that all earlier sessions expire.
 */
const MOVED_MS = LIFE_MS + TOLERANCE_MS + 1000;

/** Time after which the page has renewed a session, in milliseconds: 80 % of the lifetime, and one more second. */
const TO_RENEWAL_MS = 49_000;

const SHOWN = { group: "acme", viewer: "ann", plan: "gold", seats: "3" };

const copied = copyExample("express");

beforeAll(() => {
  packClient(copied.folder);
  copied.run("npm install --no-audit --no-fund --prefer-offline");
});
afterAll(() => copied.remove());

describe("the installed Express example", () => {
  overHttp(copied, ["npm", "start"]);
});

describeWithChromium("the page in Chromium", () => {
  const server = sharedServer();
  const moving = movableClock(MOVED_MS);
  const example = forSuite(
    () =>
      startExample([process.execPath, "start.js"], { cwd: copied.folder, env: { ...settingsOf(server), ...moving } }),
    (started) => started.stop(),
  );
  const browser = suiteBrowser();
  let traffic: Traffic;
  beforeAll(async () => {
    traffic = recordTraffic(browser.context);
  });

  const endSessions = () =>
    adminOf(server.url).revokeViewerSessions({ environment: customerOf(server), userGroupId: "acme", viewerId: "ann" });

  /** @param isStopped if true, the clock of the page stands still until the test moves the clock. Default: false */
  const openAsAnn = async (query: string, isStopped = false): Promise<Page> => {
    const page = await browser.context.newPage();
    closeLater(() => page.close());
    await browser.context.clearCookies();
    await page.clock.install();
    // All pages share one clock, which an earlier test may have stopped.
    await (isStopped ? stopClock(page) : page.clock.resume());
    await page.goto(`${example.url}/${query}`);
    await page.getByRole("button", { name: "Log in as Ann" }).click();
    await waitFor("the dashboard is shown", async () => same(await shownBy(page), SHOWN));
    // The page can show a response before the test has recorded the response.
    await traffic.texts();
    return page;
  };

  /** Logs the viewer out with a request that the page does not see, as if the viewer used another tab. */
  const logOutElsewhere = async () => {
    const headers = { "sec-fetch-site": "same-origin" };
    const answer = await browser.context.request.post(`${example.url}/logout`, { headers });
    expect(await answer.text()).toContain("Log in as Ann");
  };

  const lookWith = async (session: string, way: string) => {
    const headers = { authorization: `Bearer ${session}`, origin: example.url };
    return (await fetch(`${example.dashboardsUrl}/${way}/dashboard`, { headers })).status;
  };

  it("shows the properties of a viewer, and renews the session", async () => {
    const page = await openAsAnn("");
    for (let made = traffic.sessions().length; made < 6; made++) {
      await page.clock.fastForward(TO_RENEWAL_MS);
      await waitFor("the page has a new session", () => traffic.sessions().length > made);
      const session = traffic.sessions().at(-1);
      await waitFor("the new session is used", () => traffic.reads().at(-1)?.session === session);
      expect(await shownBy(page)).toEqual(SHOWN);
    }
    expect(traffic.reads().filter(({ status }) => status !== 200)).toEqual([]);
    expect(new Set(traffic.sessions()).size).toBe(traffic.sessions().length);

    // If the viewer is still logged in, the page replaces a revoked session.
    const before = traffic.sessions().length;
    await endSessions();
    await waitFor("a new session was created", () => traffic.sessions().length > before);
    await waitFor("the dashboard is shown again", async () => same(await shownBy(page), SHOWN));
  });

  it("becomes empty within a second of a revocation if the host calls the service", async () => {
    const page = await openAsAnn("", true);
    const session = traffic.sessions().at(-1) ?? "";
    await logOutElsewhere();
    expect(await shownBy(page)).toEqual(SHOWN);
    expect(await lookWith(session, "asks")).toBe(200);
    await endSessions();
    expect(await lookWith(session, "asks")).toBe(401);
    await page.clock.runFor(1000);
    await waitFor("nothing is shown", async () => same(await shownBy(page), {}));
    await page.getByRole("button", { name: "Log in as Ann" }).waitFor();
  });

  it("becomes empty when the session expires if the host verifies signatures", async () => {
    const page = await openAsAnn("?verifies", true);
    const session = traffic.sessions().at(-1) ?? "";
    await logOutElsewhere();
    await endSessions();
    const before = traffic.reads().length;
    await page.clock.runFor(1000);
    await waitFor("the page reads the dashboard again", () => traffic.reads().length > before);
    expect(await shownBy(page)).toEqual(SHOWN);
    expect(await lookWith(session, "asks")).toBe(401);
    expect(await lookWith(session, "verifies")).toBe(200);

    // Move only the clock of the page. When the session has expired by this clock, the page drops the session.
    await page.clock.fastForward(TO_RENEWAL_MS);
    await page.getByText("viewer session: stale").waitFor();
    expect(await shownBy(page)).toEqual(SHOWN);
    await page.clock.fastForward(LIFE_MS - TO_RENEWAL_MS);
    await waitFor("nothing is shown", async () => same(await shownBy(page), {}));

    // The clock of the host has not moved. The host accepts a copy of the session until the session has expired by the
    // clock of the host.
    expect(await lookWith(session, "verifies")).toBe(200);
    example.signal("SIGUSR2");
    await waitUntilSaid(example, "the host's clock has moved", (output) => output.includes("ms ahead"));
    expect(await lookWith(session, "verifies")).toBe(401);
    const said = /viewer session .*expired/;
    await waitFor("the host reports the reason", () => said.test(example.output()));
  });

  it("the host rejects requests from another origin, even with the cookie of the viewer", async () => {
    await openAsAnn("");
    const other = await servePage("");
    closeLater(() => other.close());
    const page = await browser.context.newPage();
    closeLater(() => page.close());
    await page.goto(other.origin);
    const answered = page.waitForResponse(`${example.url}/session`);
    await page.evaluate((url) => {
      const form = Object.assign(document.createElement("form"), { method: "post", action: url });
      document.body.append(form);
      form.submit();
    }, `${example.url}/session`);
    const answer = await answered;
    // Wait for the end of the navigation. If a page is closed during a navigation, the close can hang.
    await page.waitForURL(`${example.url}/session`);
    expect((await answer.request().allHeaders())["cookie"]).toMatch(/^login=/);
    expect(answer.status()).toBe(403);
  });

  it("never receives or sends the API token or the token of the group", async () => {
    const { userGroup } = await grpcClients(server).groups.getUserGroup({ userGroupId: "acme" });
    const groupToken = userGroup?.token ?? "";
    expect(groupToken).toMatch(/^ugt_/);
    const kept = JSON.stringify(await browser.context.storageState());
    const all = [...(await traffic.texts()), kept].join("\n");
    for (const secret of [server.tokens.customer, groupToken, "ugt_", "ugk_", "discount"])
      expect(all).not.toContain(secret);
    // The record contains pages, scripts, requests and the claims of sessions.
    for (const known of ["<title>Dashboard</title>", "viewerSessionSource", "viewer=ann", "Bearer ey", '"plan":"gold"'])
      expect(all).toContain(known);
    expect(kept).toContain("login");
  });
});

interface Traffic {
  sessions(): readonly string[];
  reads(): readonly { readonly session: string; readonly status: number }[];
  texts(): Promise<readonly string[]>;
}

function recordTraffic(context: BrowserContext): Traffic {
  const sessions: string[] = [];
  const reads: { session: string; status: number }[] = [];
  const texts: Promise<string>[] = [];
  const sent = async (request: Request) =>
    JSON.stringify([request.url(), await request.allHeaders(), request.postData()]);
  const received = async (response: Response) => {
    const request = response.request();
    // Responses with status 304 and redirects have no body.
    const body = response.status() === 200 ? await response.text() : "";
    if (response.url().endsWith("/dashboard") && request.method() === "GET") {
      const { authorization = "" } = await request.allHeaders();
      reads.push({ session: authorization.replace("Bearer ", ""), status: response.status() });
    }
    const { session } = (response.url().endsWith("/session") && body ? JSON.parse(body) : {}) as { session?: string };
    if (session !== undefined) sessions.push(session);
    return JSON.stringify([await response.allHeaders(), body, session && decodeJwt(session)]);
  };
  const record = (page: Page, text: Promise<string>) => {
    // A request has no response if the page was closed before the response.
    const recorded = text.catch((error: unknown) => {
      if (page.isClosed()) return "";
      throw error;
    });
    texts.push(recorded);
  };
  context.on("request", (request) => record(request.frame().page(), sent(request)));
  context.on("response", (response) => record(response.frame().page(), received(response)));
  return { sessions: () => sessions, reads: () => reads, texts: () => Promise.all(texts) };
}

async function shownBy(page: Page): Promise<{ readonly [name: string]: string }> {
  const cells = await page.locator("#dashboard > *").allTextContents();
  return Object.fromEntries(cells.flatMap((cell, i) => (i % 2 === 0 ? [[cell, cells[i + 1] ?? ""]] : [])));
}

function same(found: object, expected: object): boolean {
  return JSON.stringify(found) === JSON.stringify(expected);
}
