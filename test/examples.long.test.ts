import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { closeLater, newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { describeWithChromium, recordAnswers, stopClock, suiteBrowser } from "./support/chromium.ts";
import { newServer } from "./support/opened.ts";
import { pythonPrograms } from "./support/python.ts";

const run = promisify(execFile);
const EXAMPLES = [
  { name: "fastapi", needs: "python3", started: /Uvicorn running on (\S+)/ },
  { name: "go-net-http", needs: "go", started: /open (\S+)/ },
].filter(({ name, needs }) => orLeaveOut(needs, `the example ${name} is`) !== undefined);

const read = (name: string, file: string) => readFileSync(join(ROOT, "examples", name, file), "utf8");

/** Makes install commands faster: they use the pip of the tests, and do not compile Python files. */
function quickly(install: string): string {
  const requirements = join(ROOT, "packages/client-python/requirements.txt");
  const programs = pythonPrograms("client-python", requirements, "the example in Python is");
  const pip = `${programs}/pip --python .venv/bin/python install --no-compile`;
  return install.replace("venv .venv", "venv --without-pip .venv").replace(".venv/bin/pip install", pip);
}

it("the Go and Python examples have the same page", () => {
  for (const file of ["page.html", "page.js"]) expect(read("go-net-http", file)).toBe(read("fastapi", file));
});

describeWithChromium("an example, started with the commands of its README", () => {
  const browser = suiteBrowser();

  // The timeout is long, because the registry can be slow, and Go compiles for minutes the first time.
  it.each(EXAMPLES)(
    "$name shows the data of a viewer, and renews the viewer session",
    { timeout: 600_000 },
    async ({ name, started }) => {
      const service = await newServer();
      const clone = newFolder();
      mkdirSync(join(clone, "examples"));
      symlinkSync(join(ROOT, "packages"), join(clone, "packages"));
      const folder = join(clone, "examples", name);
      cpSync(join(ROOT, "examples", name), folder, { recursive: true });
      const [install = "", start = ""] = [...read(name, "README.md").matchAll(/^```sh\n(.*?)^```$/gms)].map(
        ([, code = ""]) => code,
      );
      await run("sh", ["-ec", quickly(install)], { cwd: folder });

      const port = await freePort();
      const command = start.replace(/^export API_TOKEN=.*\n/, "exec env ").replaceAll("3000", String(port));
      const env = {
        UGS_URL: service.url,
        UGS_ENVIRONMENT: `${service.environment}/Customer`,
        API_TOKEN: service.tokens.customer,
      };
      const backEnd = newProcess(startProcess(["sh", "-ec", command], { cwd: folder, env }));
      const url = await waitUntilSaid(backEnd, "it listens", (output) => started.exec(output)?.[1]);

      const page = await browser.context.newPage();
      closeLater(() => page.close());
      const answers = recordAnswers(page);
      const sessions = () => answers.count("/viewer-session");
      const shown = async () => {
        const text = () => page.locator("#data").textContent();
        await waitFor("the page shows the data", async () => (await text()) === "bob of acme has the plan gold");
      };
      // The clock of the browser is one day ahead. Even so, the example must work.
      await page.clock.install({ time: Date.now() + 86_400_000 });
      await page.goto(url);
      await shown();
      // The test stops the clock, because the page requests data every five seconds.
      await stopClock(page);
      expect(sessions()).toBe(1);
      // The page renews a session after 80 % of its lifetime of ten minutes.
      await page.clock.fastForward("07:00");
      expect(sessions()).toBe(1);
      await page.clock.fastForward("01:05");
      await waitFor("the page has a new session", () => sessions() === 2);
      // Simulate a revocation: the back end rejects the session once.
      await answers.texts();
      await page.route("**/data", (route) => route.fulfill({ status: 401 }), { times: 1 });
      await page.reload();
      await waitFor("the page has a new session", () => sessions() === 4);
      await shown();

      expect(answers.count("/data")).toBeGreaterThan(0);
      const all = await answers.texts();
      expect(all.match(/"session":"ey/g)).toHaveLength(4);
      expect(all).not.toContain(service.tokens.customer);
      expect(all).not.toMatch(/ug[tk]_/);

      for (const authorization of ["", "Bearer x.y.z", `Token ${service.tokens.customer}`]) {
        const refused = await fetch(`${url}/data`, { headers: { authorization } });
        expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      }
      await refusesOthers(url);
      // The back end rejects every session.
      await page.route("**/data", (route) => route.continue({ headers: { authorization: "Bearer x.y.z" } }));
      await page.reload();
      await waitFor("the page shows the reason", async () => {
        return (await page.locator("#data").textContent())?.startsWith("no data: HTTP 401 ");
      });
      await service.stop();
      const failed = await ask(url, { "sec-fetch-site": "same-origin" });
      expect([failed.status, await failed.text()]).toEqual([503, expect.stringContaining("try again")]);
      await backEnd.stop();
      expect(backEnd.output()).not.toContain(service.tokens.customer);
    },
  );
});

const ask = (url: string, headers: { readonly [name: string]: string }) =>
  fetch(`${url}/viewer-session`, { method: "POST", headers });

/**
 * Checks that an example creates sessions only for its own page, and that the page loads nothing from other origins.
 */
async function refusesOthers(url: string): Promise<void> {
  const evil = "https://evil.example.com";
  expect((await ask(url, { "sec-fetch-site": "same-origin" })).status).toBe(200);
  expect((await ask(url, { origin: url })).status).toBe(200);
  const others: { [name: string]: string }[] = [
    { "sec-fetch-site": "cross-site", origin: evil },
    { "sec-fetch-site": "same-site", origin: url },
    { origin: evil },
    {},
  ];
  for (const headers of others) expect((await ask(url, headers)).status).toBe(403);
  const named = await fetch(url.replace("127.0.0.1", "localhost"), { redirect: "manual" });
  expect([named.status, named.headers.get("location")]).toEqual([307, url]);
  const policy = (await fetch(url)).headers.get("content-security-policy");
  expect(policy).toMatch(/default-src 'self';.*frame-ancestors 'none'/);
}
