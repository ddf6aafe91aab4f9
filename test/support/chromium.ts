import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { forSuite } from "@user-group-service/testing/opened";
import { listen } from "@user-group-service/testing/wait";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { describe, inject } from "vitest";

const chromiumPath = inject("chromiumPath");

/** Like `describe`, but skips the suite if Chromium is not installed. */
export const describeWithChromium = describe.skipIf(chromiumPath === undefined);

export interface TestBrowser {
  readonly context: BrowserContext;
  close(): Promise<void>;
}

export function suiteBrowser(): TestBrowser {
  return forSuite(
    () => startChromium(chromiumPath ?? ""),
    (browser) => browser.close(),
  );
}

/** Starts Chromium in headless mode. The browser can connect only to 127.0.0.1. */
async function startChromium(executablePath: string): Promise<TestBrowser> {
  const profile = mkdtempSync(join(tmpdir(), "ugs-chromium-"));
  const log = join(profile, "log");
  let isClosing = false;
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--enable-logging",
      `--log-file=${log}`,
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  // On a busy machine, Playwright's default of 30 s is too short. 120 s is the default timeout of `waitFor`.
  context.setDefaultTimeout(120_000);
  context.once("close", () => {
    if (!isClosing) console.error(`Chromium exited. The end of its log:\n${readFileSync(log, "utf8").slice(-4000)}`);
  });
  return {
    context,
    close: async () => {
      isClosing = true;
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

export interface PageServer {
  readonly origin: string;
  close(): Promise<void>;
}

/** Starts an HTTP server that serves one page. The page runs `script` as a module. */
export async function servePage(script: string): Promise<PageServer> {
  const server = createServer((req, res) => {
    if (req.url === "/script.js") {
      res.writeHead(200, { "content-type": "text/javascript; charset=utf-8" }).end(script);
    } else if (req.url === "/") {
      const page =
        '<!doctype html><meta charset="utf-8"><title>test</title><script type="module" src="/script.js"></script>';
      res.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page);
    } else {
      res.writeHead(404).end();
    }
  });
  const port = await listen(server);
  return {
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Stops the clock of a page at a time 10 s in the future. From then on, only the test moves the clock. The test must
 * have called `page.clock.install` before. Playwright cannot stop the clock at a time in the past. On a busy machine, a
 * time less than 10 s ahead could pass before the clock stops.
 */
export async function stopClock(page: Page): Promise<void> {
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 10_000));
}

export interface Answers {
  count(path: string): number;
  texts(): Promise<string>;
}

/** Records all responses that a page receives after this call. */
export function recordAnswers(page: Page): Answers {
  const paths: string[] = [];
  const texts: Promise<string>[] = [];
  page.on("response", (response) => {
    paths.push(new URL(response.url()).pathname);
    const headers = response.allHeaders().then((all) => JSON.stringify(all));
    // The body cannot be read if a navigation cancels the request, if the test itself responds to the request, or if
    // the page is closed.
    texts.push(...[headers, response.text()].map((each) => each.catch(() => "")));
  });
  return {
    count: (path) => paths.filter((each) => each === path).length,
    texts: async () => (await Promise.all(texts)).join("\n"),
  };
}
