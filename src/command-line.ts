import packageJson from "../package.json" with { type: "json" };
import { SETTINGS } from "./config/config.ts";

/** How a command line is answered instead of starting the service. */
export interface Answer {
  readonly text: string;
  /** Of the process; 0: what was asked for is in the text. */
  readonly exitCode: 0 | 2;
}

/** Answers the arguments of the command line; undefined: there are none, so the service starts. */
export function answerTo(args: readonly string[]): Answer | undefined {
  const asked = args.map((arg) => KNOWN.get(arg));
  const unknown = asked.indexOf(undefined);
  if (unknown >= 0) return { text: refusal(unknown, args[unknown] ?? ""), exitCode: 2 };
  const [make] = asked;
  return make && { text: make(), exitCode: 0 };
}

const KNOWN: ReadonlyMap<string, () => string> = new Map([
  ["--help", help],
  ["-h", help],
  ["--version", () => packageJson.version],
  ["-v", () => packageJson.version],
]);

/** Of the argument only what cannot be a part of a secret is repeated. */
function refusal(index: number, arg: string): string {
  const [name] = /^[a-z_-]{0,30}/i.exec(arg) ?? [];
  const shown = name ? ` (${name})` : "";
  return `argument ${index + 1}${shown} is unknown: settings are variables of the environment, such as PORT=8080 before the command; --help lists them`;
}

function help(): string {
  const widths = [0, 0];
  const rows = Object.entries(SETTINGS).map(([name, [byDefault, words]]) => [name, byDefault, words] as const);
  for (const row of rows) for (const i of [0, 1] as const) widths[i] = Math.max(widths[i] ?? 0, row[i].length);
  const lines = rows.map(([name, byDefault, words]) => {
    return `  ${name.padEnd(widths[0] ?? 0)}  ${byDefault.padEnd(widths[1] ?? 0)}  ${words}`;
  });
  return `User Group Service ${packageJson.version}: user groups and their tokens, over gRPC, gRPC-Web, Connect and REST.

Usage: NAME=VALUE ... node dist/main.js [--help | --version]
       NAME=VALUE ... npm run start:deno

Settings are variables of the environment. Their names, defaults, and what they are:

${lines.join("\n")}`;
}
