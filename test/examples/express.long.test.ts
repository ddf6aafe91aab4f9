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

/** How long the example's sessions last, and by how much clocks may differ for who verifies one alone, in milliseconds. */
const LIFE_MS = 60_000;
const TOLERANCE_MS = 5000;

/** How much on the clock of the host is moved: every session from before has ended. */
const MOVED_MS = LIFE_MS + TOLERANCE_MS + 1000;

/** Four fifths of a session's life and a second: the page gets the next one. */
const TO_RENEWAL_MS = 49_000;

const SHOWN = { group: "acme", viewer: "ann", plan: "gold", seats: "3" };

const copied = copyExample("express");

beforeAll(() => {
  packClient(copied.folder);
  copied.run("npm install --no-audit --no-fund --prefer-offline");
});
afterAll(() => copied.remove());

describe("the example with Express, installed", () => {
  overHttp(copied, ["npm", "start"]);
});

describeWithChromium("a company's page in Chromium", () => {
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

  /** Ends Ann's sessions before their time. */
  const endSessions = () =>
    adminOf(server.url).revokeViewerSessions({ environment: customerOf(server), userGroupId: "acme", viewerId: "ann" });

  /**
   * Opens the page at one of the two dashboards, logs Ann in and waits until it is shown.
   *
   * @param isStopped whether no time passes for the page but by hand. Default: its time passes
   */
  const openAsAnn = async (query: string, isStopped = false): Promise<Page> => {
    const page = await browser.context.newPage();
    closeLater(() => page.close());
    await browser.context.clearCookies();
    await page.clock.install();
    // It is one clock for all pages, and a test before may have stopped it.
    await (isStopped ? stopClock(page) : page.clock.resume());
    await page.goto(`${example.url}/${query}`);
    await page.getByRole("button", { name: "Log in as Ann" }).click();
    await waitFor("the dashboard is shown", async () => same(await shownBy(page), SHOWN));
    // What is shown may be seen before it is recorded.
    await traffic.texts();
    return page;
  };

  /** Logs out, as in another tab. */
  const logOutElsewhere = async () => {
    const headers = { "sec-fetch-site": "same-origin" };
    const answer = await browser.context.request.post(`${example.url}/logout`, { headers });
    expect(await answer.text()).toContain("Log in as Ann");
  };

  /** What a dashboard answers to somebody who has copied a session. */
  const lookWith = async (session: string, way: string) => {
    const headers = { authorization: `Bearer ${session}`, origin: example.url };
    return (await fetch(`${example.dashboardsUrl}/${way}/dashboard`, { headers })).status;
  };

  it("shows a viewer's properties, and makes other sessions as time goes on", async () => {
    const page = await openAsAnn("");
    for (let made = traffic.sessions().length; made < 6; made++) {
      await page.clock.fastForward(TO_RENEWAL_MS);
      await waitFor("there is another session", () => traffic.sessions().length > made);
      const session = traffic.sessions().at(-1);
      await waitFor("it is used", () => traffic.looks().at(-1)?.session === session);
      expect(await shownBy(page)).toEqual(SHOWN);
    }
    expect(traffic.looks().filter(({ status }) => status !== 200)).toEqual([]);
    expect(new Set(traffic.sessions()).size).toBe(traffic.sessions().length);

    // Whoever may still look sees nothing of it when a session is ended.
    const before = traffic.sessions().length;
    await endSessions();
    await waitFor("another session was made", () => traffic.sessions().length > before);
    await waitFor("it is shown again", async () => same(await shownBy(page), SHOWN));
  });

  it("loses them within a second of their end where the host asks", async () => {
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

  it("loses them when the session has ended where the host verifies alone", async () => {
    const page = await openAsAnn("?verifies", true);
    const session = traffic.sessions().at(-1) ?? "";
    await logOutElsewhere();
    await endSessions();
    const before = traffic.looks().length;
    await page.clock.runFor(1000);
    await waitFor("the page looks again", () => traffic.looks().length > before);
    expect(await shownBy(page)).toEqual(SHOWN);
    expect(await lookWith(session, "asks")).toBe(401);
    expect(await lookWith(session, "verifies")).toBe(200);

    // The page lets go of it by its own clock.
    await page.clock.fastForward(TO_RENEWAL_MS);
    await page.getByText("viewer session: stale").waitFor();
    expect(await shownBy(page)).toEqual(SHOWN);
    await page.clock.fastForward(LIFE_MS - TO_RENEWAL_MS);
    await waitFor("nothing is shown", async () => same(await shownBy(page), {}));

    // Whoever has copied it has it until the clock of the host says so.
    expect(await lookWith(session, "verifies")).toBe(200);
    example.signal("SIGUSR2");
    await waitUntilSaid(example, "the clock of the host is moved on", (output) => output.includes("ms ahead"));
    expect(await lookWith(session, "verifies")).toBe(401);
    const said = /viewer session .*expired/;
    await waitFor("the host says why", () => said.test(example.output()));
  });

  it("cannot be used by a page of another origin with the viewer's cookie", async () => {
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
    // A page that is closed on its way to another site may never be.
    await page.waitForURL(`${example.url}/session`);
    expect((await answer.request().allHeaders())["cookie"]).toMatch(/^login=/);
    expect(answer.status()).toBe(403);
  });

  it("never has the API token or the group's token, nor sends them", async () => {
    const { userGroup } = await grpcClients(server).groups.getUserGroup({ userGroupId: "acme" });
    const groupToken = userGroup?.token ?? "";
    expect(groupToken).toMatch(/^ugt_/);
    const kept = JSON.stringify(await browser.context.storageState());
    const all = [...(await traffic.texts()), kept].join("\n");
    for (const secret of [server.tokens.customer, groupToken, "ugt_", "ugk_", "discount"])
      expect(all).not.toContain(secret);
    // The record is whole: pages, scripts, what was sent and what sessions say are in it.
    for (const known of ["<title>Dashboard</title>", "viewerSessionSource", "viewer=ann", "Bearer ey", '"plan":"gold"'])
      expect(all).toContain(known);
    expect(kept).toContain("login");
  });
});

/** What went between a browser and anybody. */
interface Traffic {
  /** The viewer sessions that were given. */
  sessions(): readonly string[];
  /** What dashboards were asked for, and their answers. */
  looks(): readonly { readonly session: string; readonly status: number }[];
  /** Everything that was sent and received: URLs, headers, bodies and what is within sessions. */
  texts(): Promise<readonly string[]>;
}

function recordTraffic(context: BrowserContext): Traffic {
  const sessions: string[] = [];
  const looks: { session: string; status: number }[] = [];
  const texts: Promise<string>[] = [];
  const sent = async (request: Request) =>
    JSON.stringify([request.url(), await request.allHeaders(), request.postData()]);
  const received = async (response: Response) => {
    const request = response.request();
    // What is not new or leads elsewhere has no body.
    const body = response.status() === 200 ? await response.text() : "";
    if (response.url().endsWith("/dashboard") && request.method() === "GET") {
      const { authorization = "" } = await request.allHeaders();
      looks.push({ session: authorization.replace("Bearer ", ""), status: response.status() });
    }
    const { session } = (response.url().endsWith("/session") && body ? JSON.parse(body) : {}) as { session?: string };
    if (session !== undefined) sessions.push(session);
    return JSON.stringify([await response.allHeaders(), body, session && decodeJwt(session)]);
  };
  const record = (page: Page, text: Promise<string>) => {
    // What a page was sending or getting when it was closed it never sent or had.
    const recorded = text.catch((error: unknown) => {
      if (page.isClosed()) return "";
      throw error;
    });
    texts.push(recorded);
  };
  context.on("request", (request) => record(request.frame().page(), sent(request)));
  context.on("response", (response) => record(response.frame().page(), received(response)));
  return { sessions: () => sessions, looks: () => looks, texts: () => Promise.all(texts) };
}

/** What the page shows of its dashboard, by name. */
async function shownBy(page: Page): Promise<{ readonly [name: string]: string }> {
  const cells = await page.locator("#dashboard > *").allTextContents();
  return Object.fromEntries(cells.flatMap((cell, i) => (i % 2 === 0 ? [[cell, cells[i + 1] ?? ""]] : [])));
}

function same(found: object, expected: object): boolean {
  return JSON.stringify(found) === JSON.stringify(expected);
}
