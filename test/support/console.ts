import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { ROOT } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import type { RunOptions } from "axe-core";
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { TestBrowser } from "./chromium.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const WCAG_22_AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/** Folder of the screenshots. Tests write screenshots only if the environment variable CONSOLE_PICTURES is set. */
const PICTURES = `${ROOT}/docs/console`;

const OF_COLOURS = ["color-contrast", "link-in-text-block"];

const NOT_OF_COLOURS = Object.fromEntries(OF_COLOURS.map((rule) => [rule, { enabled: false }]));

/**
 * The views in which each page is checked, and the axe rules of each check. The dark view differs from the light view
 * only in its colors, so only the rules about colors are checked. The view at 200 % differs from the light view only in
 * its width and height, so the rules about colors are not checked.
 */
const VIEWS = {
  light: { width: 1280, height: 800, colorScheme: "light", run: { runOnly: WCAG_22_AA } },
  dark: { width: 1280, height: 800, colorScheme: "dark", run: { runOnly: OF_COLOURS } },
  "at 200 %": { width: 640, height: 400, colorScheme: "light", run: { runOnly: WCAG_22_AA, rules: NOT_OF_COLOURS } },
} as const;

export interface TestConsole {
  readonly page: Page;
  /** Presses Tab until the element with this role and name has the focus. */
  tabTo(role: Parameters<Page["getByRole"]>[0], name: string): Promise<void>;
  type(label: string, text: string): Promise<void>;
  /** Replaces the text of a field, and presses Enter. */
  enter(label: string, text: string): Promise<void>;
  /** Moves the focus to a list box, and selects the first option that begins with `text`. */
  choose(label: string, text: string): Promise<void>;
  /** Moves the focus to a button or link, and presses Enter. For a link, waits until the linked page is shown. */
  press(role: "button" | "link", name: string): Promise<void>;
  says(text: string): Promise<void>;
  alerts(text: string): Promise<void>;
  signIn(token: string): Promise<void>;
  /** Checks the current page or dialog against WCAG 2.2 AA in every view. */
  checkViews(name: string): Promise<void>;
  /**
   * Checks the current page like `checkViews`. If the environment variable CONSOLE_PICTURES is set, also takes a
   * screenshot in dark colors and a screenshot in light colors.
   */
  picture(name: string): Promise<void>;
  /**
   * Expects that the page has not violated its content security policy, has logged no error and no warning, has sent no
   * request to another origin, and has stored no data in the browser. Then closes the page.
   */
  leave(): Promise<void>;
}

/**
 * Opens the console of a server.
 *
 * @param options `hash` is the hash of the URL. If `hasClock` is true, the test controls the clock of the page
 */
export async function openConsole(
  { context }: TestBrowser,
  url: string,
  { hash = "", hasClock = false }: { readonly hash?: string; readonly hasClock?: boolean } = {},
): Promise<TestConsole> {
  const page = await context.newPage();
  await page.setViewportSize(VIEWS.light);
  // With this setting, the page shows no transitions. If a check ran during a transition, it could read a color that is
  // shown only for a moment.
  await page.emulateMedia({ reducedMotion: "reduce" });
  if (hasClock) await page.clock.install();
  const requested: string[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => requested.push(request.url()));
  page.on("console", (message) => {
    // The browser logs a message if a response is an error, or if the test aborts a request. These messages are not
    // complaints.
    const isAnswer = /^Failed to load resource: (?:the server responded|net::ERR_FAILED)/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isAnswer) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.addInitScript(() => {
    const violations: string[] = [];
    Object.assign(globalThis, { violations });
    document.addEventListener("securitypolicyviolation", (event) => {
      violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  await page.goto(`${url}/console/${hash}`);
  await page.getByRole("heading", { level: 1 }).waitFor();

  const tabToLocator = async (locator: Locator, what: string) => {
    await locator.first().waitFor();
    let wanted = await locator.elementHandles();
    for (let presses = 0; presses < 150; presses++) {
      const { isThere, isShown } = await page.evaluate(
        (all) => ({
          isThere: all.some((each) => each === document.activeElement),
          isShown: all.some(({ isConnected }) => isConnected),
        }),
        wanted,
      );
      if (isThere) return;
      // Finding the elements is slow in a long table. So search again only if the page no longer contains the elements
      // that were found.
      if (!isShown) wanted = await locator.elementHandles();
      await page.keyboard.press("Tab");
    }
    throw new Error(`Tab does not reach ${what}`);
  };
  const tested: TestConsole = {
    page,
    tabTo: (role, name) => tabToLocator(page.getByRole(role, { name, exact: true }), `${role} ${name}`),
    async type(label, text) {
      await tabToLocator(page.getByLabel(label, { exact: true }), label);
      await page.keyboard.press("Control+A");
      await page.keyboard.press("Delete");
      await page.keyboard.insertText(text);
    },
    async enter(label, text) {
      await tested.type(label, text);
      await page.keyboard.press("Enter");
    },
    async choose(label, text) {
      await tested.tabTo("combobox", label);
      // The test does not type the name of the option: after a pause between two letters, the browser would start a new
      // search. So the test presses arrow keys.
      await page.keyboard.press("Home");
      const chosen = page.locator(":focus").locator("option:checked");
      await waitFor(`${text} is selected`, async () => {
        if ((await chosen.innerText()).startsWith(text)) return true;
        return page.keyboard.press("ArrowDown");
      });
    },
    async press(role, name) {
      await tested.tabTo(role, name);
      // The next step of the test must not act on the previous page. The console has added its listener for
      // `hashchange` before this listener. So when this listener runs, the console has already shown the new page.
      const followed = await page.evaluateHandle(() => ({
        isDone: new Promise<void>((resolve) => addEventListener("hashchange", () => resolve(), { once: true })),
      }));
      await page.keyboard.press("Enter");
      if (role === "link") await followed.evaluate(({ isDone }) => isDone);
    },
    alerts: (text) => page.getByRole("alert").filter({ hasText: text }).waitFor(),
    says: (text) => page.locator(".live", { hasText: text }).waitFor(),
    async signIn(token) {
      await tested.enter("ADMIN_TOKEN, or an API token of role admin", token);
      await page.getByRole("button", { name: "Sign out" }).waitFor();
    },
    async checkViews(name) {
      for (const [view, { width, height, colorScheme, run }] of Object.entries(VIEWS)) {
        await page.setViewportSize({ width, height });
        await page.emulateMedia({ colorScheme });
        expect(await violationsOf(page, run), `${name}, ${view}`).toEqual([]);
        const layout = await page.evaluate(() => {
          const scrolled = document.querySelector(".page") as Element;
          const announced = document.querySelector("#console > .live") as Element;
          return {
            isWider: [document.documentElement, scrolled].some((each) => each.scrollWidth > each.clientWidth),
            isCovered: announced.getBoundingClientRect().top < scrolled.getBoundingClientRect().bottom,
          };
        });
        expect(layout, `${name}, ${view}`).toEqual({ isWider: false, isCovered: false });
      }
      await page.setViewportSize(VIEWS.light);
      await page.emulateMedia({ colorScheme: "light" });
    },
    async picture(name) {
      await tested.checkViews(name);
      if (process.env["CONSOLE_PICTURES"] === undefined) return;
      mkdirSync(PICTURES, { recursive: true });
      await page.evaluate(() => document.querySelector(".page")?.scrollTo(0, 0));
      for (const colorScheme of ["dark", "light"] as const) {
        await page.emulateMedia({ colorScheme });
        const file = `${PICTURES}/${name.replaceAll(" ", "-")}${colorScheme === "dark" ? "-dark" : ""}.png`;
        writeFileSync(file, await page.screenshot({ animations: "disabled" }));
      }
    },
    async leave() {
      expect(await page.evaluate(() => (globalThis as unknown as { violations: string[] }).violations)).toEqual([]);
      expect(complaints).toEqual([]);
      const others = requested.filter((each) => !each.startsWith(`${url}/`) && !each.startsWith("data:"));
      expect(others).toEqual([]);
      const kept = async () => {
        const databases = await indexedDB.databases();
        return [localStorage.length, sessionStorage.length, databases.length, document.cookie];
      };
      expect(await page.evaluate(kept)).toEqual([0, 0, 0, ""]);
      expect(await context.cookies()).toEqual([]);
      await page.close();
    },
  };
  return tested;
}

/** The interval at which pages poll data, in milliseconds. */
const POLL_MS = 2000;

/**
 * Moves the clock of a page ahead by one polling interval, and repeats this until `shown` is visible. The page polls
 * with the given RPC, and must have been opened with `hasClock`.
 */
export async function readUntil(page: Page, rpc: string, shown: Locator): Promise<void> {
  await waitFor("the page shows the data it has read", async () => {
    const one = [page.waitForResponse(`**/${rpc}`), shown.first().waitFor()].map((each) => each.catch(() => undefined));
    await page.clock.fastForward(POLL_MS);
    await Promise.race(one);
    return (await shown.count()) > 0;
  });
}

async function violationsOf(page: Page, run: RunOptions): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  await waitFor("the page has finished reading", async () => (await page.getByText("Reading …").count()) === 0);
  return page.evaluate(async (options) => {
    const { axe } = globalThis as unknown as { axe: typeof import("axe-core") };
    const { violations } = await axe.run(document, { ...options, resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  }, run);
}
