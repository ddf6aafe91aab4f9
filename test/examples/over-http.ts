import { forSuite, newProcess } from "@user-group-service/testing/opened";
import { startProcess } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { adminOf, customerOf } from "../support/admin.ts";
import { sharedServer } from "../support/opened.ts";
import { grpcClients } from "../support/rpc.ts";
import { type CopiedExample, type RunningExample, settingsOf, startExample } from "./example.ts";

/**
 * The dashboards of the example. If `asks` is true, the dashboard calls the service for each session, and so rejects
 * revoked sessions immediately.
 */
const DASHBOARDS = [
  { path: "/asks/dashboard", asks: true },
  { path: "/verifies/dashboard", asks: false },
];

/** Registers tests of the Express example over HTTP. @param command starts the copied example */
export function overHttp(copied: Pick<CopiedExample, "folder">, command: readonly string[]): void {
  const server = sharedServer();
  const example = forSuite(
    () => startExample(command, { cwd: copied.folder, env: settingsOf(server) }),
    (started) => started.stop(),
  );

  describe("its back end", () => {
    it("returns 401 instead of a session if no viewer is logged in", async () => {
      expect((await post(example, "/session")).status).toBe(401);
      expect((await post(example, "/login", { form: "viewer=mallory" })).status).toBe(400);
    });

    it("returns a new viewer session each time, and no token", async () => {
      const login = await logIn(example, "ann");
      const answers = [await post(example, "/session", { login }), await post(example, "/session", { login })];
      const sessions = answers.map(({ body }) => (JSON.parse(body) as { session: string }).session);
      expect(new Set(sessions).size).toBe(2);
      expect(answers.map(({ headers }) => headers.get("cache-control"))).toEqual(["no-store", "no-store"]);
      const claims = decodeJwt(sessions[0] ?? "");
      expect(claims).toMatchObject({ sub: "acme", aud: "dashboards", vid: "ann", origin: example.url });
      expect(claims["properties"]).toEqual({ plan: "gold", seats: 3 });
      expect(Number(claims.exp) - Number(claims.iat)).toBe(60);
      const said = JSON.stringify([answers.map(({ headers, body }) => [...headers, body]), claims, login]);
      for (const token of [server.tokens.customer, await groupToken("acme")]) expect(said).not.toContain(token);
    });

    it("refuses requests from another site, even with the cookie of the viewer", async () => {
      const login = await logIn(example, "ann");
      for (const path of ["/session", "/login", "/logout"]) {
        const site = "cross-site";
        const reported = await post(example, path, {
          login,
          form: "viewer=eve",
          site,
          origin: "https://evil.example.com",
        });
        expect(reported.status, path).toBe(403);
        // A page at `dashboardsUrl` has another port than the example, so the browser sends `same-site` instead of
        // `same-origin`. The example must refuse requests of such a page.
        const near = { site: "same-site", origin: example.dashboardsUrl };
        expect((await post(example, path, { login, form: "viewer=eve", ...near })).status, path).toBe(403);
        const old = { site: undefined, origin: "https://evil.example.com" };
        expect((await post(example, path, { login, form: "viewer=eve", ...old })).status, path).toBe(403);
      }
      expect(decodeJwt(await sessionOf(example, login))["vid"]).toBe("ann");
    });

    it("ends the login at logout", async () => {
      const login = await logIn(example, "ann");
      expect((await post(example, "/logout", { login })).status).toBe(303);
      expect((await post(example, "/session", { login })).status).toBe(401);
    });
  });

  describe.each(DASHBOARDS)("$path", ({ path, asks }) => {
    const fetchDashboard = async (authorization: string | undefined, origin = example.url) => {
      const headers = { origin, ...(authorization !== undefined && { authorization }) };
      const answer = await fetch(`${example.dashboardsUrl}${path}`, { headers });
      return { status: answer.status, body: (await answer.json()) as unknown };
    };

    it("returns only the properties of the viewer of the session", async () => {
      const [ann, eve] = [await logIn(example, "ann"), await logIn(example, "eve")];
      expect(await fetchDashboard(`Bearer ${await sessionOf(example, ann)}`)).toEqual({
        status: 200,
        body: { group: "acme", viewer: "ann", properties: { plan: "gold", seats: 3 } },
      });
      expect(await fetchDashboard(`Bearer ${await sessionOf(example, eve)}`)).toEqual({
        status: 200,
        body: { group: "globex", viewer: "eve", properties: { plan: "free", seats: 1 } },
      });
    });

    it("rejects requests without a viewer session, requests from another origin, and requests with a token", async () => {
      const session = await sessionOf(example, await logIn(example, "ann"));
      expect((await fetchDashboard(undefined)).status).toBe(401);
      expect((await fetchDashboard(`Bearer ${session}x`)).status).toBe(401);
      expect((await fetchDashboard(`Bearer ${session}`, "https://evil.example.com")).status).toBe(401);
      expect((await fetchDashboard(`Bearer ${await groupToken("acme")}`)).status).toBe(401);
      expect((await fetchDashboard(`Bearer ${server.tokens.customer}`)).status).toBe(401);
    });

    it(`${asks ? "rejects" : "still accepts"} a session after its revocation`, async () => {
      const session = await sessionOf(example, await logIn(example, "bob"));
      expect((await fetchDashboard(`Bearer ${session}`)).status).toBe(200);
      await adminOf(server.url).revokeViewerSessions({
        environment: customerOf(server),
        userGroupId: "acme",
        viewerId: "bob",
      });
      expect((await fetchDashboard(`Bearer ${session}`)).status).toBe(asks ? 401 : 200);
    });

    it("allows only the origin of its page to read the response", async () => {
      const preflight = async (origin: string) => {
        const headers = {
          origin,
          "access-control-request-method": "GET",
          "access-control-request-headers": "authorization",
        };
        const answer = await fetch(`${example.dashboardsUrl}${path}`, { method: "OPTIONS", headers });
        return answer.headers.get("access-control-allow-origin") === origin;
      };
      expect(await preflight(example.url)).toBe(true);
      expect(await preflight("https://evil.example.com")).toBe(false);
    });
  });

  it("exits with an error that names API_TOKEN if API_TOKEN is not set", async () => {
    const { API_TOKEN: _, ...env } = settingsOf(server);
    const started = newProcess(startProcess(command, { cwd: copied.folder, env }));
    expect(await started.exited()).not.toBe(0);
    expect(started.output()).toMatch(/^API_TOKEN is not set: .*$/m);
    expect(started.output()).not.toMatch(/^\s+at /m);
  });

  it("logs the reason if it cannot create a session, and sends only the status to the page", async () => {
    const broken = await startExample(command, {
      cwd: copied.folder,
      env: { ...settingsOf(server), API_TOKEN: "test-unknown-token" },
    });
    newProcess(broken);
    const answer = await post(broken, "/session", { login: await logIn(broken, "ann") });
    expect(answer).toMatchObject({ status: 503, body: '{"error":"try again in a moment"}' });
    await waitFor("the log names the reason", () => broken.output().includes("API_TOKEN_UNKNOWN"));
    expect(broken.output()).not.toContain("test-unknown-token");
  });

  async function groupToken(userGroupId: string): Promise<string> {
    const { userGroup } = await grpcClients(server).groups.getUserGroup({ userGroupId });
    expect(userGroup?.token).toMatch(/^ugt_/);
    return userGroup?.token ?? "";
  }
}

interface PostOptions {
  readonly login?: string;
  readonly form?: string;
  /** Value of `Sec-Fetch-Site`, or undefined to omit the header. Default: `same-origin`. */
  readonly site?: string | undefined;
  /** Value of `Origin`. Default: the origin of the example. */
  readonly origin?: string;
}

async function post({ url }: Pick<RunningExample, "url">, path: string, options: PostOptions = {}) {
  const { login, form, site = "site" in options ? undefined : "same-origin", origin = url } = options;
  const headers: Record<string, string> = {
    origin,
    ...(site !== undefined && { "sec-fetch-site": site }),
    ...(login !== undefined && { cookie: login }),
    ...(form !== undefined && { "content-type": "application/x-www-form-urlencoded" }),
  };
  const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: form ?? null, redirect: "manual" });
  return { status: answer.status, headers: answer.headers, body: await answer.text() };
}

async function logIn(example: Pick<RunningExample, "url">, viewer: string): Promise<string> {
  const { status, headers } = await post(example, "/login", { form: `viewer=${viewer}` });
  expect(status).toBe(303);
  const [cookie = ""] = headers.getSetCookie();
  expect(cookie).toMatch(/; HttpOnly/i);
  expect(cookie).toMatch(/; SameSite=(Lax|Strict)/i);
  return cookie.split(";")[0] ?? "";
}

async function sessionOf(example: Pick<RunningExample, "url">, login: string): Promise<string> {
  const { status, body } = await post(example, "/session", { login });
  expect(status).toBe(200);
  return (JSON.parse(body) as { session: string }).session;
}
