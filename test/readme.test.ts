import { existsSync, readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { type Code, ConnectError } from "@connectrpc/connect";
import { codeFromString, codeToHttpStatus, codeToString } from "@connectrpc/connect/protocol-connect";
import { itemsOf, rowsOf, textOf } from "@user-group-service/testing/documents";
import { ROOT } from "@user-group-service/testing/process";
import type { Refusal } from "@user-group-service/transport";
import { describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { REFUSAL_STATUS } from "../packages/transport/src/protocol/refusals.ts";
import { SETTINGS } from "../src/config/settings.ts";
import * as domainErrors from "../src/domain/errors.ts";
import { errorResponse } from "../src/rest/json.ts";
import { legacyEndpoints } from "../src/rest/legacy.ts";
import { ACCESS } from "../src/rpc/access.ts";
import { callError, toCallError } from "../src/rpc/errors.ts";
import { refusedError } from "../src/rpc/refusal-errors.ts";
import { OLDEST } from "../src/store/connection/requirements.ts";

const DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md"].concat(
  readdirSync(`${ROOT}/docs`, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
);

/** Returns the anchors that GitHub generates for the headings of a document. */
function anchorsOf(text: string): string[] {
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
  return headings.map((heading) => `#${heading.replace(/[^\w -]/g, "").replaceAll(" ", "-")}`);
}

describe("the table of settings", () => {
  it("has exactly the settings of the code, with their defaults", () => {
    const documented = rowsOf("README.md", "Settings").map(([name, value]) => [name, value]);
    const settings = Object.entries(SETTINGS).map(([name, [, , , byDefault = ""]]) => [name, byDefault]);
    expect(documented.sort()).toEqual(settings.sort());
  });

  it("has exactly the variables that Deno may read", () => {
    const deno = JSON.parse(textOf("deno.json")) as { permissions: { default: { env: { allow: string[] } } } };
    expect([...deno.permissions.default.env.allow].sort()).toEqual(Object.keys(SETTINGS).sort());
  });
});

const HTTP_METHODS = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "OK"]);

/** Returns the reasons of errors in the sources. A reason is a string in capitals that is not "OK" or an HTTP method. */
function reasonsInSource(): string[] {
  const files = ["src/domain/errors.ts"];
  for (const folder of ["src/rpc", "src/rest", "src/auth"]) {
    for (const name of readdirSync(`${ROOT}/${folder}`, { recursive: true }) as string[]) {
      if (name.startsWith("pages/")) continue;
      if (name.endsWith(".ts") && !name.endsWith(".test.ts")) files.push(`${folder}/${name}`);
    }
  }
  const found = files.flatMap((file) =>
    [...textOf(file).matchAll(/"([A-Z]+(?:_[A-Z]+)*)"/g)].map(([, text]) => text ?? ""),
  );
  return [...new Set(found)].filter((text) => !HTTP_METHODS.has(text)).sort();
}

const ERROR = new ConnectError("text");

/** A refusal of each kind. If the kind has no status in `REFUSAL_STATUS`, the refusal has the status of its code. */
const REFUSALS: { readonly [kind in Refusal["kind"]]: Refusal & { readonly kind: kind } } = {
  "malformed-http": { kind: "malformed-http" },
  "transfer-coding": { kind: "transfer-coding" },
  "request-timeout": { kind: "request-timeout", headerMs: 1, requestMs: 1 },
  "expectation-failed": { kind: "expectation-failed" },
  "header-too-large": { kind: "header-too-large", maxBytes: 1 },
  "too-many-streams": { kind: "too-many-streams" },
  "too-many-bodies": { kind: "too-many-bodies" },
  overloaded: { kind: "overloaded", cause: "queue-full", retryAfterSeconds: 1 },
  "deadline-exceeded": { kind: "deadline-exceeded" },
  "not-found": { kind: "not-found" },
  "http-method": { kind: "http-method", httpMethod: "PATCH", allowed: [] },
  "content-type": { kind: "content-type" },
  "content-encoding": { kind: "content-encoding", accepted: [] },
  unauthorized: { kind: "unauthorized", error: ERROR },
  "message-too-large": { kind: "message-too-large", maxBytes: 1, error: ERROR },
  "malformed-compression": { kind: "malformed-compression", encoding: "gzip", error: ERROR },
  "malformed-message": { kind: "malformed-message", isBinary: true, error: ERROR },
  protocol: { kind: "protocol", error: ERROR },
  unencodable: { kind: "unencodable", error: ERROR },
  endpoint: { kind: "endpoint", error: ERROR },
};

const STATUS_OF_REASON = new Map(
  Object.values(REFUSALS).map((refusal) => {
    const error = refusedError(refusal, { method: undefined, protocolName: undefined });
    return [
      error.findDetails(ErrorInfoSchema)[0]?.reason,
      REFUSAL_STATUS[refusal.kind] ?? codeToHttpStatus(error.code),
    ];
  }),
);

it("the table of methods has exactly the methods of the code, with their roles", () => {
  const documented = rowsOf("docs/api.md", "Endpoints").filter(([, role, words]) => role !== "" && words !== undefined);
  const methods = [...ACCESS].map(([method, access]) => {
    return [`${method.parent.typeName}/${method.name}`, access === "root" ? "ADMIN_TOKEN" : access];
  });
  expect(documented.map(([name, role]) => [name, role?.replaceAll("*", "")]).sort()).toEqual(methods.sort());
});

it("the table of the hosted service's paths has exactly the paths of the code, with their methods and RPCs", () => {
  const served = Object.entries(legacyEndpoints(0)).flatMap(([path, { methods }]) =>
    [...methods].map(([httpMethod, { rpc }]) => {
      // If a call contains the id of a group, CreateViewerSession needs a higher role than the role in `ACCESS`.
      const role = rpc === ViewerService.method.createViewerSession ? "read" : rpc && ACCESS.get(rpc);
      return [`${httpMethod} ${path}`, rpc?.name, role];
    }),
  );
  const documented = rowsOf("docs/legacy-paths.md", "Paths").map(([path, rpc, role = ""]) => {
    return [path, rpc, role.includes("read") ? "read" : role];
  });
  expect(documented.sort()).toEqual(served.sort());
});

describe("the table of errors", () => {
  const rows = rowsOf("docs/api.md", "Errors");

  it("has exactly the reasons of the code", () => {
    expect(rows.map(([, reason]) => reason).sort()).toEqual(reasonsInSource());
  });

  it.each(rows.map(([code = "", reason = "", status = ""]) => [reason, code, status]))(
    "lists the HTTP status that the service returns for the reason %s (%s)",
    (reason, name, status) => {
      const code = codeFromString(name);
      expect(code).toBeDefined();
      const causes = [new domainErrors.EtagMismatch(), new domainErrors.UserGroupSuspended("")];
      const cause = causes.find((each) => each.reason === reason);
      const error = callError(code as Code, "text", { reason, cause });
      const httpStatus = Number(status.slice(0, 3));
      const overConnect = /(\d{3}) over Connect/.exec(status)?.[1];
      if (overConnect) expect(codeToHttpStatus(error.code)).toBe(Number(overConnect));
      expect(errorResponse(error, STATUS_OF_REASON.get(reason) ?? codeToHttpStatus(error.code)).status).toBe(
        httpStatus,
      );
    },
  );

  const foreseen = Object.entries(domainErrors).filter(([name]) => name !== "DomainError");
  it.each(foreseen)("lists the gRPC code that the service returns for the error class %s", (_name, errorClass) => {
    const error = toCallError(new (errorClass as new () => domainErrors.DomainError)());
    const reason = error.findDetails(ErrorInfoSchema)[0]?.reason;
    expect(rows.find(([, documented]) => documented === reason)?.[0]).toBe(codeToString(error.code));
  });
});

function namesIn(section: string): string[] {
  return itemsOf("docs/dependencies.md", section)
    .map(([name]) => name)
    .sort();
}

it("the lists of dependencies have exactly the npm packages that the programs use", () => {
  const { dependencies } = JSON.parse(textOf("package.json")) as Record<string, Record<string, string>>;
  const commandLine = JSON.parse(textOf("packages/cli/package.json")) as Record<string, Record<string, string>>;
  const documented = itemsOf("docs/dependencies.md", "npm");
  const required = [dependencies, commandLine["dependencies"]].flatMap((each) => Object.keys(each ?? {}));
  expect(documented.map(([name]) => name).sort()).toEqual([...new Set(required)].sort());
  for (const [name, purpose] of documented) expect(purpose, name).not.toBe("");
});

it("the list of dependencies in Go has exactly the modules of the client and the Terraform provider", () => {
  const manifests = textOf("packages/client-go/go.mod") + textOf("packages/terraform-provider/go.mod");
  const required = [...manifests.matchAll(/^\t(\S+) v\S+$/gm)].map(([, name]) => name);
  expect(namesIn("Go")).toEqual([...new Set(required)].sort());
});

it("the list of dependencies in Python has exactly the required packages", () => {
  const manifest = textOf("packages/client-python/pyproject.toml");
  const required = [...manifest.matchAll(/^ {2}"([\w-]+)(?:\[\w+\])?[=>]/gm)].map(([, name]) => name);
  expect(namesIn("Python")).toEqual(required.sort());
});

it("the README names the oldest supported versions", () => {
  const { engines, devDependencies } = JSON.parse(textOf("package.json")) as Record<string, Record<string, string>>;
  const [redis, valkey] = [OLDEST["redis"], OLDEST["valkey"]].map((version) => version?.join("."));
  const readme = textOf("README.md");
  expect(readme).toContain(`Node ${engines?.["node"]?.replace(">=", "")} or newer`);
  expect(readme).toContain(`Deno ${devDependencies?.["deno"]}`);
  expect(readme).toContain(`Redis ${redis} or newer, or Valkey ${valkey} or newer`);
});

describe.each(DOCUMENTS)("%s", (name) => {
  const text = textOf(name);

  it("names only existing npm scripts", () => {
    const { scripts } = JSON.parse(textOf("package.json")) as { scripts: Record<string, string> };
    for (const [, script] of text.matchAll(/npm run ([a-z:]+)/g)) expect(Object.keys(scripts)).toContain(script);
  });

  it("links only to existing files and headings", () => {
    for (const [, target = ""] of text.matchAll(/\]\(([^)]+)\)/g)) {
      const url = new URL(target, pathToFileURL(`${ROOT}/${name}`));
      if (url.protocol !== "file:") continue;
      expect(existsSync(url), target).toBe(true);
      if (url.hash !== "") expect(anchorsOf(readFileSync(url, "utf8")), target).toContain(url.hash);
    }
  });
});

describe("docs/architecture.md", () => {
  const FOLDERS = ["", "packages/transport/src/", "src/store/connection/", "src/store/"];

  it("names only existing files and folders", () => {
    const named = textOf("docs/architecture.md").matchAll(/`([\w./-]+(?:\.(?:tsx?|json|md|yaml)|\/))`/g);
    const names = [...named].map(([, name = ""]) => name);
    expect(names).not.toEqual([]);
    const missing = names.filter((name) => !FOLDERS.some((folder) => existsSync(`${ROOT}/${folder}${name}`)));
    expect(missing).toEqual([]);
  });
});
