import { createServer, type ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { listen, waitFor } from "@user-group-service/testing/wait";
import type { Page as BrowserPage } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { bundleForBrowser } from "../../../test/support/bundle.ts";
import { describeWithChromium, stopClock, suiteBrowser } from "../../../test/support/chromium.ts";
import type { Page } from "./page.ts";

/** Lifetime of the sessions that `sessionOf` returns, in milliseconds. */
const LIFE_MS = 600_000;
/** Age at which `viewerSessionSource` renews a session, in milliseconds. */
const REFRESH_MS = 480_000;

/** Returns an unsigned session. Its `iat` and `exp` do not match the clock of the browser. */
function sessionOf(n: number): string {
  const iat = 2_000_000_000 + n;
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${encoded({ typ: "viewer+jwt" })}.${encoded({ sub: "Grüße ÿ?>", n, iat, exp: iat + LIFE_MS / 1000 })}.x`;
}

describeWithChromium("viewerSessionSource in Chromium", () => {
  const browser = suiteBrowser();
  let page: BrowserPage;
  let origin: string;
  let answer: (res: ServerResponse, n: number) => void;
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

  const run = <Name extends keyof Page>(name: Name, ...args: Parameters<Page[Name]>) =>
    page.evaluate(
      ([called, given]) =>
        (globalThis as unknown as { page: Record<string, (...all: unknown[]) => unknown> }).page[called]?.(...given),
      [name, args as unknown[]] as const,
    ) as Promise<Awaited<ReturnType<Page[Name]>>>;

  const reported = (wanted: string, session?: string) =>
    waitFor(`the page reports ${wanted}`, async () => {
      const last = (await run("states")).at(-1);
      return last?.status === wanted && (session === undefined || last.session === session) ? last : undefined;
    });
  const requested = (count: number) => waitFor(`there are ${count} requests`, () => requests >= count);

  beforeAll(async () => {
    script = await bundleForBrowser(fileURLToPath(new URL("page.ts", import.meta.url)));
    origin = `http://127.0.0.1:${await listen(server)}`;
    page = await browser.context.newPage();
    await page.clock.install({ time: "2030-01-01T00:00:00Z" });
    // With this value, each random pause has its maximum length.
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

  it("sends one request at a time, and returns the same session to all callers", async () => {
    await run("start", "one");
    expect(new Set(await run("getMany", 20))).toEqual(new Set([sessionOf(1)]));
    expect(await run("get")).toBe(sessionOf(1));
    expect(requests).toBe(1);
    expect(await run("states")).toEqual([{ status: "ready", session: sessionOf(1), error: undefined }]);
  });

  it("renews the session after 80 % of its lifetime", async () => {
    await run("start", "next");
    await reported("ready");
    await page.clock.runFor(REFRESH_MS - 1);
    expect(requests).toBe(1);
    await page.clock.runFor(1);
    await reported("ready", sessionOf(2));
    await page.clock.runFor(REFRESH_MS);
    await reported("ready", sessionOf(3));
    expect(requests).toBe(3);
  });

  it("renews the session if the tab becomes visible after 80 % of the lifetime, but not before", async () => {
    await run("start", "visible");
    await reported("ready");
    /** Simulates a machine that wakes after sleep. The clock has advanced, but no timer has run. */
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
    await reported("ready", sessionOf(2));
    expect(requests).toBe(2);
  });

  it("a session source is 'stale' after a failed renewal, retries with growing pauses, and is 'failed' when the session expires", async () => {
    await run("start", "stale");
    await reported("ready");
    answer = status(503);
    await page.clock.runFor(REFRESH_MS);
    expect(await reported("stale")).toEqual({
      status: "stale",
      session: sessionOf(1),
      error: expect.stringMatching(/HTTP 503$/),
    });
    expect(await run("get")).toBe(sessionOf(1));
    for (const pauseMs of [2000, 4000, 8000, 16_000, 30_000, 30_000]) {
      const before = requests;
      await page.clock.runFor(pauseMs - 1);
      expect(requests).toBe(before);
      await page.clock.runFor(1);
      await requested(before + 1);
      await waitFor("the attempt has failed", async () => (await run("states")).length === before + 1);
    }
    // The session expires 120 seconds after the failed renewal. The pauses of the loop took 90 of these seconds.
    await page.clock.runFor(LIFE_MS - REFRESH_MS - 90_000);
    expect(await reported("failed")).toMatchObject({ session: undefined });
    answer = good;
    const next = requests + 1;
    expect(await run("get")).toBe(sessionOf(next));
    await reported("ready", sessionOf(next));
  });

  it("sends no more requests after a 401 response until get is called or the tab becomes visible", async () => {
    answer = status(401);
    await run("start", "refused");
    expect(await reported("failed")).toMatchObject({ error: expect.stringMatching(/HTTP 401$/) });
    await page.clock.runFor(LIFE_MS);
    expect(requests).toBe(1);
    expect(await run("get")).toMatch(/^ViewerSessionUnavailable: .*HTTP 401$/);
    answer = good;
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await reported("ready", sessionOf(3));
  });

  it("aborts a request after timeoutMs", async () => {
    answer = () => {};
    await run("start", "hangs", 3000);
    const waiting = run("get");
    await requested(1);
    await page.clock.runFor(3000);
    expect(await waiting).toMatch(/^ViewerSessionUnavailable: .* 3000 ms$/);
    await waitFor("the request was aborted", () => givenUp === 1);
    answer = good;
    await page.clock.runFor(2000);
    await reported("ready", sessionOf(2));
  });

  it("replaces a rejected session once for all callers, and never returns the rejected session again", async () => {
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
    ["no JSON", (res: ServerResponse) => res.end("<html>"), /JSON/],
    ["no session", (res: ServerResponse) => res.end("null"), /JSON must be/],
    ["an unawaited promise", (res: ServerResponse) => res.end("{}"), /await createViewerSession/],
    ["another string", (res: ServerResponse) => res.end('{"session":"ugt_1"}'), /not a viewer session/],
    ["no response", (res: ServerResponse) => res.destroy(), /request .* failed/],
  ])("reports an error if the back end returns %s", async (_, wrong, error) => {
    answer = (res) => void wrong(res.writeHead(200));
    await run("start", "wrong");
    expect((await reported("failed")).error).toMatch(error);
  });

  it("reports an error if the back end returns a cached session", async () => {
    answer = (res) => good(res, 1);
    await run("start", "cached");
    await reported("ready");
    await page.clock.runFor(REFRESH_MS);
    expect(await reported("stale")).toMatchObject({ error: expect.stringContaining("caching") });
  });

  it.each([
    ["has expired", { iat: 1_700_000_000, exp: 1_700_000_600 }, /expired/],
    ["has times in milliseconds", { iat: 2_000_000_000_000, exp: 2_000_000_060_000 }, /seconds/],
  ])("rejects a session that %s", async (_, times, error) => {
    const session = `e30.${Buffer.from(JSON.stringify(times)).toString("base64url")}.x`;
    answer = (res) => void res.writeHead(200).end(JSON.stringify({ session }));
    await run("start", "over");
    expect(await reported("failed")).toMatchObject({ session: undefined, error: expect.stringMatching(error) });
  });

  it("aborts the request in flight when dispose is called, and sends no more requests", async () => {
    answer = () => {};
    await run("start", "disposed");
    const waiting = run("get");
    await requested(1);
    await run("dispose");
    expect(await waiting).toMatch(/^ViewerSessionUnavailable: .*disposed/);
    await waitFor("the request was aborted", () => givenUp === 1);
    await page.clock.runFor(LIFE_MS);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    expect(await run("get")).toMatch(/disposed/);
    expect(requests).toBe(1);
    expect((await run("states")).at(-1)).toMatchObject({ status: "disposed", session: undefined });
  });
});
