import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { newProcess } from "@user-group-service/testing/opened";
import {
  movableClock,
  ROOT,
  type RunningProcess,
  startProcess,
  waitUntilSaid,
} from "@user-group-service/testing/process";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ADMIN_ENV } from "../../../test/support/admin.ts";
import { describeWithChromium, recordAnswers, stopClock, suiteBrowser } from "../../../test/support/chromium.ts";
import { suiteServer } from "../../../test/support/opened.ts";
import { ADMIN_TOKEN } from "../../../test/support/server.ts";

const PACKAGE = join(import.meta.dirname, "..");
const README = readFileSync(join(PACKAGE, "README.md"), "utf8");

const blocks = [...README.matchAll(/^```(\w+) ?(\S*)\n(.*?)^```$/gms)];
const files = new Map(blocks.flatMap(([, , name = "", code = ""]) => (name === "" ? [] : [[name, code] as const])));
const [, install = ""] = blocks.flatMap(([, language, , code = ""]) => (language === "text" ? [code] : []));

/** Lifetime of the sessions that the back end of the README creates, in milliseconds. */
const LIFE_MS = 600_000;
/** Age at which the page of the README renews a session, in milliseconds. */
const REFRESH_MS = 480_000;

const SHOWN = '{"customer":"acme","viewer":"bob","plan":"gold"}';

describe("the package, installed", () => {
  const folder = mkdtempSync(join(tmpdir(), "ugs-client-"));
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const run = (command: string) =>
    execFileSync("sh", ["-e", "-c", command], {
      cwd: folder,
      env: {
        PATH: `${ROOT}/node_modules/.bin:${process.env["PATH"]}`,
        HOME: process.env["HOME"],
        npm_config_prefer_offline: "true",
        npm_config_audit: "false",
        npm_config_fund: "false",
      },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });

  beforeAll(() => {
    expect(install).toContain("express@5\n");
    run(
      install
        .replace("../user-group-service/packages/client", PACKAGE)
        .replace("express@5", "express@5.3.0 fastify@5.12.8"),
    );
    // The declarations of the client use the types of these packages. Users of TypeScript install the packages
    // themselves.
    for (const name of ["@types/node", "undici-types"]) {
      mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
      symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
    }
    for (const [name, code] of files) write(name, code);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it("loads with import and with require", () => {
    const names = "Object.keys(all).filter((name) => /^(create|verify|reason|viewer|Viewer)/.test(name)).sort().join()";
    const expected = "ViewerService,ViewerSessionError,createUserGroupServiceClient,reasonOf,verifyViewerSession";
    write("module.mjs", `import * as all from "@user-group-service/client"; console.log(${names})`);
    write("common.cjs", `const all = require("@user-group-service/client"); console.log(${names})`);
    for (const file of ["module.mjs", "common.cjs"]) {
      const exported = run(`"${process.execPath}" ${file}`).trim().split(",");
      expect(exported).toEqual(expect.arrayContaining(expected.split(",")));
    }
    const browser = `"${process.execPath}" -p 'typeof require("@user-group-service/client/browser").viewerSessionSource'`;
    expect(run(browser)).toBe("function\n");
  });

  it("contains only built files, and no tests", () => {
    const packed = run("find node_modules/@user-group-service/client -type f | sort").trim().split("\n");
    const strange = packed.filter((name) => !/\/(dist\/.*\.(js|d\.ts)|package\.json|README\.md|LICENSE)$/.test(name));
    expect(strange).toEqual([]);
    expect(packed.join()).not.toMatch(/\.test\.|protovalidate/);
  });

  it("has types for back ends, for pages without the types of Node, and for the examples of the README", () => {
    const check = (options: string, ...names: string[]) =>
      run(`tsc --noEmit --strict --module nodenext --target es2023 ${options} ${names.join(" ")} >&2`);
    const consumer = `
      import { Code, type ClientOptions, ConnectError, createUserGroupServiceClient, type Reason, reasonOf, Role, timestampDate, verifyViewerSession } from "@user-group-service/client";
      const options: ClientOptions = { url: "http://127.0.0.1:8080", token: async ({ refused }) => refused ?? "t", timeoutMs: 1000 };
      const { viewers, admin, userGroups } = createUserGroupServiceClient(options);
      export async function use(): Promise<string> {
        const { session, refreshTime } = await viewers.createViewerSession({ group: { case: "userGroupId", value: "acme" }, audience: "a" }, { timeoutMs: 5 });
        const verified = await verifyViewerSession(session, { issuer: ["a", "b"], audience: "a" });
        const { userGroup } = await userGroups.getUserGroup({ userGroupId: "acme", properties: { plan: ["gold", 1, null] } });
        await admin.createApiToken({ role: Role.READ, displayName: "x" });
        // @ts-expect-error another field name
        verified.vid;
        return [verified.viewerId?.length, verified.expireTime.getTime(), userGroup?.teamId, refreshTime && timestampDate(refreshTime)].join();
      }
      export function advice(error: unknown): Reason | undefined {
        if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
        // @ts-expect-error the reason does not exist
        if (reasonOf(error) === "ETAG_MISMATCHED") return undefined;
        return reasonOf(error) === "ETAG_MISMATCH" ? "ETAG_MISMATCH" : undefined;
      }
    `;
    for (const name of ["consumer.mts", "consumer.cts"]) write(name, consumer);
    check(
      "--types node --allowJs --checkJs --noImplicitAny false",
      "consumer.mts",
      "consumer.cts",
      "ask.mjs",
      "errors.mjs",
      "logging.mjs",
      "pages.mjs",
    );
    write(
      "page.mts",
      `import { type ViewerSessionState, viewerSessionSource } from "@user-group-service/client/browser";
      const source = viewerSessionSource({ fetch: (init) => fetch("/s", init), onChange: ({ status }: ViewerSessionState) => console.log(status) });
      export const text: Promise<string> = source.get();
      // @ts-expect-error not a session
      export const state: string = source.state;`,
    );
    check("--lib es2023,dom --types ''", "page.mts");
  });

  describeWithChromium("the page of the README", () => {
    const service = suiteServer({ env: ADMIN_ENV });
    const browser = suiteBrowser();

    async function startHost(
      file: string,
      env: { readonly [name: string]: string } = {},
    ): Promise<RunningProcess & { url: string }> {
      const host = newProcess(
        startProcess([process.execPath, file], {
          cwd: folder,
          env: {
            UGS_URL: service.url,
            UGS_ENVIRONMENT: `${service.environment}/Customer`,
            API_TOKEN: service.tokens.customer,
            PORT: String(await freePort()),
            ...env,
          },
        }),
      );
      const url = await waitUntilSaid(host, "the back end listens", (output) => /open (\S+)/.exec(output)?.[1]);
      return { ...host, url };
    }

    async function openPage(url: string) {
      const page = await browser.context.newPage();
      const answers = recordAnswers(page);
      await page.clock.install();
      await page.goto(url);
      await shows(page, "#data", SHOWN);
      await shows(page, "#state", "ready");
      await stopClock(page);
      return { page, answers };
    }

    const shows = (page: Page, where: string, wanted: string | RegExp) =>
      waitFor(`the page shows ${wanted}`, async () => {
        const text = (await page.textContent(where)) ?? "";
        return typeof wanted === "string" ? text === wanted : wanted.test(text);
      });

    it.each(["server.mjs", "fastify.mjs"])(
      "the page with the back end %s shows the viewer and the properties, and receives no token",
      async (file) => {
        const { url } = await startHost(file);
        const { page, answers } = await openPage(url);
        await page.clock.fastForward(REFRESH_MS);
        await waitFor("the page has renewed the session", () => answers.count("/viewer-session") === 2);
        await shows(page, "#state", "ready");
        const all = await answers.texts();
        await page.close();
        expect(all).toContain("eyJ");
        expect(all).not.toContain(service.tokens.customer);
        expect(all).not.toMatch(/ug[tk]_/);
        for (const authorization of ["", "Bearer ugt_none", "Bearer a.b.c"])
          expect((await fetch(`${url}/data`, { headers: { authorization } })).status).toBe(401);
      },
    );

    it("shows the actual and the expected issuer if the environment is wrong", async () => {
      const { url } = await startHost("server.mjs", { UGS_ENVIRONMENT: "other/Customer" });
      const page = await browser.context.newPage();
      await page.goto(url);
      await shows(page, "#data", /HTTP 401: .*\/Customer\\", not .*\/other\/Customer/);
      await page.close();
    });

    it("ends the back end with EADDRINUSE if the port is in use", async () => {
      const { url } = await startHost("server.mjs");
      await expect(startHost("server.mjs", { PORT: new URL(url).port })).rejects.toThrow(/EADDRINUSE/);
    });

    it("hides the data of a revoked session when the session expires, or at once if the back end checks sessions with the service", async () => {
      const server = files.get("server.mjs") ?? "";
      const user = '({ name: "bob", customer: "acme" })';
      const check = / {2}try \{\n {4}const viewer = await verifyViewerSession.*?\n {2}\}\n(?=\}\);)/s;
      const asking = /^```js\n(const viewer = await viewerOf.*?)^```$/ms.exec(README)?.[1];
      expect(server).toContain(user);
      expect(server).toMatch(check);
      /**
       * The code of a back end. If the back end receives SIGHUP, the back end logs its user out and creates no more
       * sessions.
       */
      const closable = `let isOut = false;
        process.on("SIGHUP", () => {
          isOut = true;
          console.log("out");
        });
        ${server.replace(user, `(isOut ? undefined : ${user})`)}`;
      write("alone.mjs", closable);
      write(
        "asks.mjs",
        `import { viewerOf } from "./ask.mjs";
        ${closable.replace(check, asking ?? "")}`,
      );
      const alone = await startHost("alone.mjs", movableClock(LIFE_MS + 6000));
      const asks = await startHost("asks.mjs");
      const pages = { alone: await openPage(alone.url), asks: await openPage(asks.url) };
      for (const host of [alone, asks]) {
        host.signal("SIGHUP");
        await waitUntilSaid(host, "its user is out", (output) => output.includes("out\n"));
      }
      const [environment, own] = ['name: "dev"', `name: "${service.environment}"`];
      expect(files.get("revoke.mjs")).toContain(environment);
      write("revoke.mjs", files.get("revoke.mjs")?.replace(environment, own) ?? "");
      run(`UGS_URL=${service.url} ADMIN_TOKEN=${ADMIN_TOKEN} "${process.execPath}" revoke.mjs`);

      // The back end `asks` rejects the first request after the revocation, and creates no new session.
      await pages.asks.page.clock.runFor(5000);
      await shows(pages.asks.page, "#data", /HTTP 401/);
      await shows(pages.asks.page, "#state", /^failed: .*HTTP 401/);

      const { page } = pages.alone;
      await page.clock.fastForward(REFRESH_MS);
      await shows(page, "#state", /^stale: .*HTTP 401/);
      await shows(page, "#data", SHOWN);
      alone.signal("SIGUSR2");
      await waitUntilSaid(alone, "its clock is moved on", (output) => output.includes("ms ahead\n"));
      await page.clock.runFor(5000);
      await shows(page, "#data", /HTTP 401/);
      await shows(page, "#state", /^failed/);
      for (const { page: open, answers } of Object.values(pages)) {
        expect(await answers.texts()).not.toMatch(/ug[tk]_/);
        await open.close();
      }
    });
  });
});
