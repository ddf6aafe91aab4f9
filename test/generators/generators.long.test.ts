import { execFile } from "node:child_process";
import { cpSync, mkdirSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { describe, expect, it } from "vitest";
import { suiteServer } from "../support/opened.ts";
import { grpcClients } from "../support/rpc.ts";
import { goProgram, HAS_GO, HAS_JAVA, jars, newerNode, npmFolder, pythonFolder } from "./tools.ts";

const CALLERS = join(ROOT, "test/generators");
const DOCUMENT = join(ROOT, "gen/openapi.json");

/** The first run downloads and compiles generators. */
const TIMEOUT_MS = 600_000;

const python = pythonFolder();

interface Place {
  readonly folder: string;
  /** Environment variables of the generators, and of the program that calls the service. */
  readonly env: NodeJS.ProcessEnv;
}

/** Runs a program in the folder of a client. @throws if the program fails, with the output of the program */
async function run({ folder, env }: Place, program: string, args: readonly string[]): Promise<string> {
  return (await promisify(execFile)(program, args, { cwd: folder, env, maxBuffer: 64 * 1024 * 1024 })).stdout;
}

/**
 * Generates and compiles a client, and calls the service with the client.
 *
 * @returns the output of the calling program
 */
type Client = (place: Place) => Promise<string>;

/** Returns a client in TypeScript. @param caller the calling program, a file in `typescript/` */
function typescript(caller: string, generate: (place: Place, npm: string) => Promise<unknown>): Client {
  return async (place) => {
    const npm = npmFolder();
    symlinkSync(join(npm, "node_modules"), join(place.folder, "node_modules"));
    for (const file of [caller, "orval.config.js"]) cpSync(join(CALLERS, "typescript", file), join(place.folder, file));
    await generate(place, join(npm, "node_modules"));
    const strict = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "esnext"];
    const resolution = ["--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable", "--types", "node"];
    await run(place, process.execPath, ["node_modules/typescript/bin/tsc", ...strict, ...resolution, caller]);
    const bundle = ["--bundle", "--platform=node", "--format=esm", "--outfile=caller.mjs", "--log-level=warning"];
    await run(place, join(ROOT, "node_modules/.bin/esbuild"), [caller, ...bundle]);
    return run(place, process.execPath, ["caller.mjs"]);
  };
}

/** Returns a client in Go, in the package `api`. @param name folder of the calling program */
function go(name: string, generate: (place: Place) => Promise<unknown>): Client {
  return async (place) => {
    cpSync(join(CALLERS, name), place.folder, { recursive: true });
    mkdirSync(join(place.folder, "api"));
    await generate(place);
    return run(place, "go", ["run", "."]);
  };
}

function openapiGenerator(place: Place, language: string, args: readonly string[]): Promise<string> {
  const none = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false";
  const input = ["-jar", jars().generator, "generate", "-g", language, "-i", DOCUMENT, "--global-property", none];
  return run(place, "java", [...input, ...args]);
}

const CLIENTS: { readonly [name: string]: { readonly isThere: boolean; readonly client: Client } } = {
  "openapi-typescript with openapi-fetch": {
    isThere: true,
    client: typescript("openapi-fetch.ts", (place, npm) =>
      run(place, process.execPath, [
        join(npm, "openapi-typescript/bin/cli.js"),
        ...[DOCUMENT, "-o", "openapi-typescript/api.ts"],
      ]),
    ),
  },
  orval: {
    isThere: python !== undefined,
    client: typescript("orval.ts", (place, npm) =>
      run(place, newerNode(python ?? ""), [join(npm, "orval/dist/bin/orval.mjs"), ...["--config", "orval.config.js"]]),
    ),
  },
  "hey-api": {
    isThere: python !== undefined,
    client: typescript("hey-api.ts", (place, npm) =>
      run(place, newerNode(python ?? ""), [
        join(npm, "@hey-api/openapi-ts/bin/run.js"),
        ...["-i", DOCUMENT, "-o", "hey-api", "-c", "@hey-api/client-fetch", "--no-log-file"],
      ]),
    ),
  },
  "openapi-python-client": {
    isThere: python !== undefined,
    client: async (place) => {
      const args = [
        "generate",
        "--path",
        DOCUMENT,
        "--meta",
        "none",
        "--output-path",
        "generated",
        "--fail-on-warning",
      ];
      await run(place, join(python ?? "", "openapi-python-client"), args);
      return run(place, join(python ?? "", "python"), [join(CALLERS, "python/openapi_python_client.py")]);
    },
  },
  "openapi-generator for Python": {
    isThere: python !== undefined && HAS_JAVA,
    client: async (place) => {
      await openapiGenerator(place, "python", ["-o", "."]);
      return run(place, join(python ?? "", "python"), [join(CALLERS, "python/openapi_generator.py")]);
    },
  },
  "openapi-generator for Go": {
    isThere: HAS_GO && HAS_JAVA,
    client: go("openapi-generator", (place) =>
      openapiGenerator(place, "go", ["-o", "api", "--additional-properties", "packageName=api,withGoMod=false"]),
    ),
  },
  "openapi-generator for Java": {
    isThere: HAS_JAVA,
    client: async (place) => {
      const { classPath } = jars();
      const options = ["--library", "native", "--additional-properties", "openApiNullable=false"];
      await openapiGenerator(place, "java", ["-o", ".", ...options]);
      const compile = `javac -nowarn -d out -cp "$0" "$1" $(find src/main -name '*.java')`;
      const caller = join(CALLERS, "java/Calls.java");
      await run(place, "sh", ["-ec", compile, classPath, caller]);
      return run(place, "java", ["-cp", `out:${classPath}`, basename(caller, ".java")]);
    },
  },
  "oapi-codegen": {
    isThere: HAS_GO,
    client: go("oapi-codegen", (place) => {
      const program = goProgram("github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen", "v2.8.2");
      return run(place, program, ["-generate", "types,client", "-package", "api", "-o", "api/api.go", DOCUMENT]);
    }),
  },
  ogen: {
    isThere: HAS_GO,
    client: go("ogen", (place) => {
      const program = goProgram("github.com/ogen-go/ogen/cmd/ogen", "v1.24.0");
      return run(place, program, ["--target", "api", "--package", "api", DOCUMENT]);
    }),
  },
};

describe("a client that a public generator creates from the OpenAPI document", () => {
  const server = suiteServer({});

  for (const [name, { isThere, client }] of Object.entries(CLIENTS))
    it.skipIf(!isThere)(
      `compiles and calls the service: ${name}`,
      async () => {
        const folder = newFolder();
        const userGroupId = `by ${name}`;
        const env = {
          ...process.env,
          ...{ DOCUMENT, URL: server.url, API_TOKEN: server.tokens.customer, USER_GROUP_ID: userGroupId },
          // PATH has the formatters that a generator runs. PYTHONPATH has the generated package.
          ...{ PATH: `${python}:${process.env["PATH"]}`, PYTHONPATH: folder },
          // The Java program runs for a few seconds. Without the optimizing compiler, it takes less CPU time.
          JAVA_TOOL_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        };
        const printed = await client({ folder, env });
        const { userGroup } = await grpcClients(server).groups.getUserGroup({ userGroupId });
        expect(JSON.parse(printed)).toEqual({
          token: userGroup?.token,
          properties: { plan: "gold", seats: [1, null] },
          restToken: userGroup?.token,
          teamId: Number(userGroup?.teamId),
          session: expect.stringMatching(/^ey[\w-]+\.[\w-]+\.[\w-]+$/),
          providedId: userGroupId,
          code: "not_found",
        });
      },
      TIMEOUT_MS,
    );
});
