import { readFileSync } from "node:fs";
import { createRegistry, type DescFile } from "@bufbuild/protobuf";
import { createEcmaScriptPlugin, runNodeJs } from "@bufbuild/protoplugin";
import packageJson from "../../package.json" with { type: "json" };
import { documentOf } from "./document.ts";
import { readTables } from "./tables.ts";

/** The services to describe, in this order. Server reflection is omitted, because its only method is a stream. */
const SERVICES = [
  "usergroup.v1.UserGroupService",
  "usergroup.v1.ViewerService",
  "usergroup.admin.v1.AdminService",
  "grpc.health.v1.Health",
];

/**
 * Writes openapi.json, and the reasons of errors for the client. buf runs this plugin in the folder of buf.gen.yaml, so
 * the plugin can read docs/api.md by a relative path.
 */
const plugin = createEcmaScriptPlugin({
  name: "protoc-gen-openapi",
  version: "v1",
  generateTs(schema) {
    const registry = createRegistry(...(schema.allFiles as DescFile[]));
    const services = schema.files
      .flatMap((file) => file.services)
      .filter(({ typeName }) => /^(?:usergroup|grpc\.health)\./.test(typeName));
    const rank = (typeName: string) => (SERVICES.indexOf(typeName) + SERVICES.length + 1) % (SERVICES.length + 1);
    const api = readFileSync("docs/api.md", "utf8");
    const file = schema.generateFile("openapi.json");
    const document = documentOf({
      services: services.sort((a, b) => rank(a.typeName) - rank(b.typeName)),
      registry,
      api,
      version: packageJson.version,
    });
    file.print(JSON.stringify(document, undefined, 2));
    const reasons = schema.generateFile("reasons.ts");
    reasons.print("// Generated from the table of errors in docs/api.md.");
    reasons.print();
    reasons.print(
      "/** The reasons of errors: `google.rpc.ErrorInfo.reason`. docs/api.md contains the advice for each reason. */",
    );
    reasons.print("export const REASONS = [");
    for (const { reason } of readTables(api).reasons) reasons.print(`  "${reason}",`);
    reasons.print("] as const;");
    reasons.print();
    reasons.print("/** A reason of an error of the service. */");
    reasons.print("export type Reason = (typeof REASONS)[number];");
  },
});

runNodeJs(plugin);
