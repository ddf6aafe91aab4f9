import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { closeLater, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoRun } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packClient } from "../../../test/examples/example.ts";
import { describeWithChromium, servePage, suiteBrowser } from "../../../test/support/chromium.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import { createUserGroupServiceClient } from "../src/index.ts";

const README = readFileSync(join(import.meta.dirname, "../README.md"), "utf8");

/**
 * Runtimes without the modules of Node. Each value lists the conditions of `exports` in `package.json` that the bundler
 * of the runtime sets.
 */
const RUNTIMES = {
  Workers: ["workerd", "worker", "browser"],
  "Next's middleware": ["edge-light", "worker", "browser"],
  browsers: ["browser"],
};

describe("the package, installed", () => {
  const folder = mkdtempSync(join(tmpdir(), "ugs-consumers-"));
  const write = (name: string, text: string) => {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  };
  const run = (command: string, env: { readonly [name: string]: string } = {}) =>
    execFileSync("sh", ["-e", "-c", `exec 2>&1\n${command}`], {
      cwd: folder,
      env: {
        PATH: `${folder}/node_modules/.bin:${ROOT}/node_modules/.bin:${process.env["PATH"]}`,
        HOME: process.env["HOME"],
        npm_config_prefer_offline: "true",
        npm_config_audit: "false",
        npm_config_fund: "false",
        ...env,
      },
      encoding: "utf8",
    });
  const failureOf = (command: string): string => {
    try {
      run(command);
    } catch (error) {
      return (error as { stdout: string }).stdout;
    }
    throw new Error(`the command did not fail: ${command}`);
  };

  const server = sharedServer();
  let session = "";
  beforeAll(async () => {
    packClient(folder);
    run(`npm init -y
      npm install ./user-group-service-client-0.1.0.tgz @types/node@20.19.43 typescript-5.7@npm:typescript@5.7.3 typescript-5.8@npm:typescript@5.8.3 jest@30.5.2 \
        @babel/plugin-transform-modules-commonjs@7.29.14 express@5.3.0 fastify@5.12.8 hono@4.13.19 \
        workerd@1.20261117.1 @edge-runtime/vm@5.0.0`);
    const issuer = `${server.url}/e/${server.environment}/Customer`;
    for (const [, name = "", code = ""] of README.matchAll(/^```js(?:on)? (\S+)\n(.*?)^```$/gms))
      write(name, code.replace("http://127.0.0.1:8080/e/dev/Customer", issuer));
    const client = createUserGroupServiceClient({ url: server.url, token: server.tokens.customer });
    await client.userGroups.getUserGroup({ userGroupId: "acme" });
    const group = { case: "userGroupId", value: "acme" } as const;
    ({ session } = await client.viewers.createViewerSession({ group, audience: "dashboards", viewerId: "bob" }));
    client.close();
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Returns the responses to requests without a session, with an invalid session and with a valid session. */
  async function answersOf(url: string) {
    const answers: unknown[] = [];
    for (const authorization of ["", "Bearer a.b.c", `Bearer ${session}`]) {
      const answer = await fetch(url, { headers: { authorization } });
      answers.push([answer.status, answer.status === 200 ? await answer.json() : undefined]);
    }
    return answers;
  }
  const VERIFIED = [
    [401, undefined],
    [401, undefined],
    [200, { customer: "acme", viewer: "bob" }],
  ];

  async function bundled(code: string, runtime: keyof typeof RUNTIMES, globalName?: string): Promise<string> {
    const { outputFiles } = await build({
      stdin: { contents: code, resolveDir: folder },
      bundle: true,
      write: false,
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: [...RUNTIMES[runtime], "import"],
      target: "es2022",
      ...(globalName === undefined ? { format: "esm" } : { format: "iife", globalName }),
    });
    return outputFiles[0]?.text ?? "";
  }

  it("verifies viewer sessions in a Cloudflare Worker", async () => {
    write("bundle.mjs", await bundled('export { default } from "./worker.mjs";', "Workers"));
    const port = await freePort();
    write(
      "workerd.capnp",
      `using Workerd = import "/workerd/workerd.capnp";
      const config :Workerd.Config = (
        services = [
          (name = "main", worker = .worker),
          (name = "internet", network = (allow = ["private", "local"])),
        ],
        sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
      );
      const worker :Workerd.Worker = (
        modules = [(name = "worker", esModule = embed "bundle.mjs")],
        compatibilityDate = "2026-01-01",
      );`,
    );
    const worker = newProcess(
      startProcess([join(folder, "node_modules/.bin/workerd"), "serve", "workerd.capnp"], { cwd: folder }),
    );
    const url = `http://127.0.0.1:${port}/`;
    await waitFor("the Worker answers", () =>
      fetch(url).then(
        () => true,
        () => !worker.isRunning(),
      ),
    );
    expect(await answersOf(url), worker.output()).toEqual(VERIFIED);
    const many = await Promise.all(Array.from({ length: 20 }, () => answersOf(url)));
    expect(many).toEqual(many.map(() => VERIFIED));
  });

  it("verifies viewer sessions in a middleware of Next.js", async () => {
    write("bundle.js", await bundled('export * from "./middleware.mjs";', "Next's middleware", "bundle"));
    write(
      "edge.mjs",
      `import { readFileSync } from "node:fs";
      import { EdgeVM } from "@edge-runtime/vm";
      const vm = new EdgeVM();
      vm.evaluate(readFileSync("bundle.js", "utf8"));
      const statusOf = async (authorization) => {
        vm.context.authorization = authorization;
        const refused = await vm.evaluate('bundle.middleware(new Request("http://a.example/data", { headers: { authorization } }))');
        return refused?.status;
      };
      console.log(JSON.stringify([await statusOf(""), await statusOf("Bearer a.b.c"), (await statusOf("Bearer " + process.env.SESSION)) ?? "passes"]));`,
    );
    expect(run(`"${process.execPath}" edge.mjs`, { SESSION: session })).toBe('[401,401,"passes"]\n');
  });

  it("verifies viewer sessions in Deno", async () => {
    write(
      "deno.mjs",
      `import worker from "./worker.mjs";
      Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: ({ port }) => console.log("port " + port + "\\n") }, worker.fetch);`,
    );
    const command = [...denoRun(["--allow-net=127.0.0.1", "--node-modules-dir=manual"]), "deno.mjs"];
    const deno = newProcess(startProcess(command, { cwd: folder }));
    const port = await waitUntilSaid(deno, "it listens", (output) => /port (\d+)/.exec(output)?.[1]);
    expect(await answersOf(`http://127.0.0.1:${port}/`), deno.output()).toEqual(VERIFIED);
  });

  describeWithChromium("in Chromium", () => {
    const browser = suiteBrowser();

    it("verifies viewer sessions in a page", async () => {
      const script = await bundled(
        'import { viewerOf } from "./viewer.mjs"; Object.assign(window, { viewerOf });',
        "browsers",
      );
      const served = await servePage(script);
      closeLater(() => served.close());
      const page = await browser.context.newPage();
      closeLater(() => page.close());
      await page.goto(served.origin);
      const seen = await page.evaluate(
        async (texts) => {
          const { viewerOf } = window as unknown as {
            viewerOf(request: Request): Promise<{ viewer?: { userGroupId: string }; refused?: Response }>;
          };
          const seen: unknown[] = [];
          for (const authorization of texts) {
            const { viewer, refused } = await viewerOf(new Request("/", { headers: { authorization } }));
            seen.push(viewer?.userGroupId ?? refused?.status);
          }
          return seen;
        },
        ["", "Bearer a.b.c", `Bearer ${session}`],
      );
      expect(seen).toEqual([401, 401, "acme"]);
    });
  });

  it("protects Express, Fastify and Hono with the middleware of the README", () => {
    write(
      "frameworks.mjs",
      `import { once } from "node:events";
      import express from "express";
      import fastify from "fastify";
      import { Hono } from "hono";
      import * as forExpress from "./express-middleware.mjs";
      import * as forFastify from "./fastify-hook.mjs";
      import * as forHono from "./hono-middleware.mjs";
      const options = { issuer: "${server.url}/e/${server.environment}/Customer", audience: "dashboards" };

      const onExpress = express();
      onExpress.get("/data", forExpress.requireViewer(options), (req, res) => res.send(req.viewer.viewerId));
      const listening = onExpress.listen(0, "127.0.0.1");
      await once(listening, "listening");
      const onFastify = fastify();
      onFastify.addHook("onRequest", forFastify.requireViewer(options));
      onFastify.get("/data", async (request) => request.viewer.viewerId);
      const onHono = new Hono();
      onHono.use(forHono.requireViewer(options));
      onHono.get("/data", (c) => c.text(c.get("viewer").viewerId));

      const requested = {
        express: (headers) => fetch(\`http://127.0.0.1:\${listening.address().port}/data\`, { headers }),
        fastify: async (headers) => {
          const { statusCode, body } = await onFastify.inject({ url: "/data", headers });
          return new Response(body, { status: statusCode });
        },
        hono: (headers) => onHono.request("/data", { headers }),
      };
      for (const [name, ask] of Object.entries(requested)) {
        const seen = [name];
        for (const headers of [{}, { authorization: "Bearer a.b.c" }, { authorization: "Bearer " + process.env.SESSION }]) {
          const answer = await ask(headers);
          seen.push(answer.ok ? await answer.text() : answer.status);
        }
        console.log(seen.join(" "));
      }
      listening.close();`,
    );
    const seen = run(`"${process.execPath}" frameworks.mjs`, { SESSION: session });
    expect(seen).toBe("express 401 401 bob\nfastify 401 401 bob\nhono 401 401 bob\n");
  });

  it("has types for the TypeScript versions and settings of the README", () => {
    const consumer = `
      import { createUserGroupServiceClient } from "@user-group-service/client";
      import { verifyViewerSession } from "@user-group-service/client/verify";
      import { viewerSessionSource } from "@user-group-service/client/browser";
      const client = createUserGroupServiceClient({ url: "http://a.example", token: "t" });
      export async function use(): Promise<string> {
        const { session } = await client.viewers.createViewerSession({ audience: "a" });
        // @ts-expect-error the method does not exist
        client.viewers.nothing();
        return (await verifyViewerSession(session, { issuer: "a", audience: "b" })).userGroupId;
      }
      export const source = viewerSessionSource({ fetch: (init) => fetch("/s", init) });`;
    for (const name of ["es.mts", "common.cts", "bundled.ts"]) write(`types/${name}`, consumer);
    const check = (version: string, settings: string) =>
      `node node_modules/typescript-${version}/bin/tsc --noEmit --strict --target es2022 --types node ${settings}`;
    run(check("5.7", "--module nodenext types/es.mts"));
    // The run above has also checked the declaration files of all packages. That check is slow, so skip it below.
    const quick = (version: string, settings: string) => check(version, `--skipLibCheck ${settings}`);
    run(quick("5.7", "--module preserve types/bundled.ts"));
    run(quick("5.8", "--module nodenext types/es.mts types/common.cts"));
    expect(failureOf(quick("5.7", "--module nodenext types/common.cts"))).toContain("TS1479");
    expect(failureOf(quick("5.8", "--module commonjs --moduleResolution node10 types/bundled.ts"))).toContain("TS2307");
  });

  it("runs in Jest with the settings of the README", () => {
    const uses = `test("it is loaded", async () => {
      await expect(verifyViewerSession("x", { issuer: "a", audience: "b" })).rejects.toThrow(ViewerSessionError);
    });`;
    const names = "{ verifyViewerSession, ViewerSessionError }";
    write("jest/es.test.mjs", `import ${names} from "@user-group-service/client"; ${uses}`);
    write("jest/common.test.cjs", `const ${names} = require("@user-group-service/client"); ${uses}`);
    write("babel.config.json", '{ "plugins": ["@babel/plugin-transform-modules-commonjs"] }');
    const jest = (config: string, file: string) => `jest --config '${config}' --runTestsByPath jest/${file}`;
    const settings = readFileSync(join(folder, "jest.config.json"), "utf8");
    const matching = { testMatch: ["**/jest/*"] };
    const compiled = JSON.stringify({ ...JSON.parse(settings), ...matching });
    const plain = JSON.stringify({ ...matching, transform: {} });
    run(jest(compiled, "common.test.cjs"));
    run(jest(plain, "es.test.mjs"), { NODE_OPTIONS: "--experimental-vm-modules" });
  });
});
