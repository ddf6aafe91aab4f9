import { fileURLToPath } from "node:url";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HealthCheckResponse_ServingStatus } from "../gen/grpc/health/v1/health_pb.ts";
import type { PageCalls, PageTask } from "./browser/page.ts";
import { bundleForBrowser } from "./support/bundle.ts";
import {
  describeWithChromium,
  type PageServer,
  servePage,
  suiteBrowser,
  type TestBrowser,
} from "./support/chromium.ts";
import { suiteServer } from "./support/opened.ts";

const PROTOCOLS: readonly PageTask["protocol"][] = ["connect", "connect-binary", "grpc-web"];

describeWithChromium("a page in Chromium", () => {
  const browser = suiteBrowser();
  let listed: PageServer;
  let unlisted: PageServer;

  beforeAll(async () => {
    const script = await bundleForBrowser(fileURLToPath(new URL("browser/page.ts", import.meta.url)));
    listed = await servePage(script);
    unlisted = await servePage(script);
  });
  afterAll(async () => {
    await listed?.close();
    await unlisted?.close();
  });

  describe.each(RUNTIMES)("with the service on %s", (runtime) => {
    const server = suiteServer(() => ({
      runtime,
      env: { CORS_ORIGINS: `https://app.example.com,${listed.origin}` },
    }));
    let page: Page;
    let foreign: Page;

    beforeAll(async () => {
      page = await open(browser, listed);
      foreign = await open(browser, unlisted);
    });

    const task = (protocol: PageTask["protocol"], userGroupId: string): PageTask => ({
      baseUrl: server.url,
      apiToken: server.tokens.customer,
      protocol,
      userGroupId,
    });

    describe.each(PROTOCOLS)("over %s", (protocol) => {
      it("a page gets and updates a group, rotates and resolves its token, and reads the request ids", async () => {
        const id = `all-${protocol}`;
        expect(await run(page, "everyCall", task(protocol, id))).toEqual({
          created: true,
          again: false,
          name: "Grüße 🎉",
          properties: { plan: "gold", seats: 3 },
          rotated: true,
          viewer: id,
          requestIds: Array(5).fill(`browser-${id}`),
        });
      });

      it("a page reads the code, the reason and the request id of an error", async () => {
        const failure = await run(page, "unknownToken", task(protocol, "unused"));
        expect(failure).toMatchObject({ code: "NotFound", reason: "TOKEN_NOT_FOUND", fields: [] });
        expect(failure.requestId).toMatch(/^[0-9a-f-]{36}$/);
      });

      it("a page reads the names of the invalid fields", async () => {
        const failure = await run(page, "withoutId", task(protocol, "unused"));
        expect(failure).toMatchObject({
          code: "InvalidArgument",
          reason: "VALIDATION_FAILED",
          fields: ["user_group_id"],
        });
      });

      it("a page reads the reason of an authentication error", async () => {
        const failure = await run(page, "failingGet", {
          ...task(protocol, "unused"),
          apiToken: "test-nobody-has-this",
        });
        expect(failure).toMatchObject({ code: "Unauthenticated", reason: "API_TOKEN_UNKNOWN" });
      });

      it("reads a stream", async () => {
        expect(await run(page, "watchHealth", task(protocol, "unused"))).toBe(
          HealthCheckResponse_ServingStatus.SERVING,
        );
      });

      it("the browser blocks a call if the origin of the page is not in CORS_ORIGINS, and no group is created", async () => {
        const id = `foreign-${protocol}`;
        const failure = await run(foreign, "failingGet", task(protocol, id));
        // The browser reports no details to the script.
        expect(failure).toMatchObject({ message: "Failed to fetch", reason: undefined, requestId: null });
        expect(await run(page, "isNew", task(protocol, id))).toBe(true);
      });
    });
  });
});

async function open(browser: TestBrowser, { origin }: PageServer): Promise<Page> {
  const page = await browser.context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(origin);
  await waitFor("the script of the page runs", () => {
    if (errors.length > 0) throw new Error(`the script of the page failed: ${errors.join("; ")}`);
    return page.evaluate(() => "calls" in globalThis);
  });
  return page;
}

function run<K extends keyof PageCalls>(
  page: Page,
  name: K,
  task: PageTask,
): Promise<Awaited<ReturnType<PageCalls[K]>>> {
  return page.evaluate(
    ([call, given]) =>
      (globalThis as unknown as { calls: Record<string, (given: unknown) => unknown> }).calls[call as string]?.(given),
    [name, task] as const,
  ) as Promise<Awaited<ReturnType<PageCalls[K]>>>;
}
