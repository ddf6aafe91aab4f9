import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { forSuite } from "@user-group-service/testing/opened";
import { listen } from "@user-group-service/testing/wait";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { describe, inject } from "vitest";

const chromiumPath = inject("chromiumPath");

/** A suite that is left out where there is no Chromium. */
export const describeWithChromium = describe.skipIf(chromiumPath === undefined);

/** A browser with an empty profile. */
export interface TestBrowser {
  readonly context: BrowserContext;
  /** Ends it and removes its profile. */
  close(): Promise<void>;
}

/** A browser for a suite. */
export function suiteBrowser(): TestBrowser {
  return forSuite(
    () => startChromium(chromiumPath ?? ""),
    (browser) => browser.close(),
  );
}

/** Starts Chromium without a window; it can reach 127.0.0.1 alone. */
async function startChromium(executablePath: string): Promise<TestBrowser> {
  const profile = mkdtempSync(join(tmpdir(), "ugs-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  // As long as `waitFor`: a busy machine may need more than Playwright's 30 s.
  context.setDefaultTimeout(120_000);
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** A page on an origin of its own. */
export interface PageServer {
  /** Such as `http://127.0.0.1:1234`. */
  readonly origin: string;
  close(): Promise<void>;
}

/** Serves one page whose script is `script`. */
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
 * Stops the clock of a page, which is installed: from here on it moves by hand alone. It stops ten seconds ahead, which no
 * busy machine passes before.
 */
export async function stopClock(page: Page): Promise<void> {
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 10_000));
}

/** What a page is answered. */
export interface Answers {
  /** How many answers came to requests for a path. */
  count(path: string): number;
  /** Headers and bodies of all answers. */
  texts(): Promise<string>;
}

/** Records what a page is answered from now on. */
export function recordAnswers(page: Page): Answers {
  const paths: string[] = [];
  const texts: Promise<string>[] = [];
  page.on("response", (response) => {
    paths.push(new URL(response.url()).pathname);
    const headers = response.allHeaders().then((all) => JSON.stringify(all));
    // What a navigation cut off, or a test answered itself, has no text; nor anything when the page is closed.
    texts.push(...[headers, response.text()].map((each) => each.catch(() => "")));
  });
  return {
    count: (path) => paths.filter((each) => each === path).length,
    texts: async () => (await Promise.all(texts)).join("\n"),
  };
}
