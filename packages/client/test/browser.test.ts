import { createServer, type ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { listen, waitFor } from "@user-group-service/testing/wait";
import type { Page as BrowserPage } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { bundleForBrowser } from "../../../test/support/bundle.ts";
import { describeWithChromium, stopClock, suiteBrowser } from "../../../test/support/chromium.ts";
import type { Page } from "./page.ts";

/** How long the sessions of the back end last, in milliseconds, and when the next one is made. */
const LIFE_MS = 600_000;
const REFRESH_MS = 480_000;

/** A session as the service makes them, but for the signature. The clock of the service is not that of the browser. */
function sessionOf(n: number): string {
  const iat = 2_000_000_000 + n;
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${encoded({ typ: "viewer+jwt" })}.${encoded({ sub: "Grüße ÿ?>", n, iat, exp: iat + LIFE_MS / 1000 })}.x`;
}

describeWithChromium("viewerSessionSource in Chromium", () => {
  const browser = suiteBrowser();
  let page: BrowserPage;
  let origin: string;
  /** How the back end answers the request of a number. */
  let answer: (res: ServerResponse, n: number) => void;
  /** How many requests it had, and how many were given up. */
  let requests = 0;
  let givenUp = 0;

  const server = createServer((req, res) => {
    if (req.url?.startsWith("/session/")) {
      res.on("close", () => {
        if (!res.writableFinished) givenUp += 1;
      });
      return answer(res, ++requests);
    }
    if (req.url === "/script.js") return void res.writeHead(200, { "content-type": "text/javascript" }).end(script);
    res.writeHead(200, { "content-type": "text/html" }).end('<script type="module" src="/script.js"></script>');
  });
  let script: string;

  const good = (res: ServerResponse, n: number) =>
    void res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ session: sessionOf(n) }));
  const status = (code: number) => (res: ServerResponse) => void res.writeHead(code).end();

  /** Has the page do something. */
  const run = <Name extends keyof Page>(name: Name, ...args: Parameters<Page[Name]>) =>
    page.evaluate(
      ([called, given]) =>
        (globalThis as unknown as { page: Record<string, (...all: unknown[]) => unknown> }).page[called]?.(...given),
      [name, args as unknown[]] as const,
    ) as Promise<Awaited<ReturnType<Page[Name]>>>;

  /** Waits until the page has been told of a status, as the newest. */
  const told = (wanted: string, session?: string) =>
    waitFor(`the page is told of ${wanted}`, async () => {
      const last = (await run("told")).at(-1);
      return last?.status === wanted && (session === undefined || last.session === session) ? last : undefined;
    });
  const requested = (count: number) => waitFor(`there are ${count} requests`, () => requests >= count);

  beforeAll(async () => {
    script = await bundleForBrowser(fileURLToPath(new URL("page.ts", import.meta.url)));
    origin = `http://127.0.0.1:${await listen(server)}`;
    page = await browser.context.newPage();
    await page.clock.install({ time: "2030-01-01T00:00:00Z" });
    // Pauses are at their longest.
    await page.addInitScript("Math.random = () => 1");
  });
  afterAll(async () => {
    server.close();
  });
  beforeEach(async () => {
    [requests, givenUp, answer] = [0, 0, good];
    await page.goto(origin);
    await waitFor("the script runs", () => page.evaluate(() => "page" in globalThis));
    await stopClock(page);
  });

  it("has one request under way, and gives its session to all who ask", async () => {
    await run("start", "one");
    expect(new Set(await run("getMany", 20))).toEqual(new Set([sessionOf(1)]));
    expect(await run("get")).toBe(sessionOf(1));
    expect(requests).toBe(1);
    expect(await run("told")).toEqual([{ status: "ready", session: sessionOf(1), error: undefined }]);
  });

  it("makes the next one when four fifths of the life are over", async () => {
    await run("start", "next");
    await told("ready");
    await page.clock.runFor(REFRESH_MS - 1);
    expect(requests).toBe(1);
    await page.clock.runFor(1);
    await told("ready", sessionOf(2));
    await page.clock.runFor(REFRESH_MS);
    await told("ready", sessionOf(3));
    expect(requests).toBe(3);
  });

  it("makes the next one when the tab becomes visible after that time, and not before", async () => {
    await run("start", "visible");
    await told("ready");
    /** The tab is looked at again after the machine has slept so long: no timer has run. */
    const wake = (afterMs: number) =>
      page.evaluate((ms) => {
        const slept = Date.now() + ms;
        Date.now = () => slept;
        document.dispatchEvent(new Event("visibilitychange"));
      }, afterMs);
    await wake(REFRESH_MS - 1000);
    expect(await run("get")).toBe(sessionOf(1));
    expect(requests).toBe(1);
    await wake(1000);
    await told("ready", sessionOf(2));
    expect(requests).toBe(2);
  });

  it("keeps the old one while a refresh fails, says so, tries again with pauses that grow, and says when it has ended", async () => {
    await run("start", "stale");
    await told("ready");
    answer = status(503);
    await page.clock.runFor(REFRESH_MS);
    expect(await told("stale")).toEqual({
      status: "stale",
      session: sessionOf(1),
      error: "the back end gave no viewer session: HTTP 503",
    });
    expect(await run("get")).toBe(sessionOf(1));
    for (const pauseMs of [2000, 4000, 8000, 16_000, 30_000, 30_000]) {
      const before = requests;
      await page.clock.runFor(pauseMs - 1);
      expect(requests).toBe(before);
      await page.clock.runFor(1);
      await requested(before + 1);
      await waitFor("the attempt has failed", async () => (await run("told")).length === before + 1);
    }
    // 90 seconds of the 120 are over; the next attempt would come with the end.
    await page.clock.runFor(LIFE_MS - REFRESH_MS - 90_000);
    expect(await told("failed")).toMatchObject({ session: undefined });
    answer = good;
    const next = requests + 1;
    expect(await run("get")).toBe(sessionOf(next));
    await told("ready", sessionOf(next));
  });

  it("tries no more by itself after it was refused, until it is asked or looked at", async () => {
    answer = status(401);
    await run("start", "refused");
    expect(await told("failed")).toMatchObject({ error: "the back end gave no viewer session: HTTP 401" });
    await page.clock.runFor(LIFE_MS);
    expect(requests).toBe(1);
    expect(await run("get")).toBe("ViewerSessionUnavailable: the back end gave no viewer session: HTTP 401");
    answer = good;
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await told("ready", sessionOf(3));
  });

  it("gives a request up after its time", async () => {
    answer = () => {};
    await run("start", "hangs", 3000);
    const waiting = run("get");
    await requested(1);
    await page.clock.runFor(3000);
    expect(await waiting).toBe("ViewerSessionUnavailable: the back end gave no viewer session within 3000 ms");
    await waitFor("the request was ended", () => givenUp === 1);
    answer = good;
    await page.clock.runFor(2000);
    await told("ready", sessionOf(2));
  });

  it("replaces one that was refused once, for all who had it, and does not give it again", async () => {
    await run("start", "replaced");
    const first = await run("get");
    expect(await Promise.all([run("replace", first), run("replace", first)])).toEqual([sessionOf(2), sessionOf(2)]);
    expect(await run("replace", first)).toBe(sessionOf(2));
    expect(requests).toBe(2);
    answer = status(403);
    expect(await run("replace", sessionOf(2))).toMatch(/HTTP 403$/);
    expect(await run("get")).toMatch(/HTTP 403$/);
  });

  it.each([
    ["no JSON", (res: ServerResponse) => res.end("<html>"), "the back end gave no JSON with a viewer session"],
    ["no session", (res: ServerResponse) => res.end("null"), /^the back end gave no viewer session: its JSON/],
    ["a promise that was not awaited", (res: ServerResponse) => res.end("{}"), /did not await createViewerSession$/],
    ["another text", (res: ServerResponse) => res.end('{"session":"ugt_1"}'), /is no viewer session$/],
    ["no answer", (res: ServerResponse) => res.destroy(), "the back end could not be asked for a viewer session"],
  ])("says so when the back end gives %s", async (_, wrong, error) => {
    answer = (res) => void wrong(res.writeHead(200));
    await run("start", "wrong");
    expect((await told("failed")).error).toMatch(error);
  });

  it("says so when the back end caches", async () => {
    answer = (res) => good(res, 1);
    await run("start", "cached");
    await told("ready");
    await page.clock.runFor(REFRESH_MS);
    expect(await told("stale")).toMatchObject({ error: expect.stringContaining("forbid caching") });
  });

  it.each([
    ["has expired", { iat: 1_700_000_000, exp: 1_700_000_600 }, /a viewer session that has expired/],
    ["has times in milliseconds", { iat: 2_000_000_000_000, exp: 2_000_000_060_000 }, /have to be in seconds/],
  ])("does not take one that %s", async (_, times, error) => {
    const session = `e30.${Buffer.from(JSON.stringify(times)).toString("base64url")}.x`;
    answer = (res) => void res.writeHead(200).end(JSON.stringify({ session }));
    await run("start", "over");
    expect(await told("failed")).toMatchObject({ session: undefined, error: expect.stringMatching(error) });
  });

  it("ends with what is under way when it is disposed of", async () => {
    answer = () => {};
    await run("start", "disposed");
    const waiting = run("get");
    await requested(1);
    await run("dispose");
    expect(await waiting).toBe("ViewerSessionUnavailable: the source of viewer sessions was disposed of");
    await waitFor("the request was ended", () => givenUp === 1);
    await page.clock.runFor(LIFE_MS);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    expect(await run("get")).toMatch(/disposed of$/);
    expect(requests).toBe(1);
    expect((await run("told")).at(-1)).toMatchObject({ status: "disposed", session: undefined });
  });
});
