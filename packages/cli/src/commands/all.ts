import type { DefineCommand } from "./command.ts";

/** A command of the program. Its module is loaded when it runs, so that other commands start without it. */
type CommandEntry = readonly [name: string, description: string, load: () => Promise<DefineCommand>];

/** All commands, in the order of the help. */
export const COMMANDS: readonly CommandEntry[] = [
  [
    "login",
    "store the URL of a service and a token for it as a profile",
    () => import("./login.ts").then((m) => m.loginCommand),
  ],
  ["logout", "delete a profile and its token", () => import("./login.ts").then((m) => m.logoutCommand)],
  ["profile", "profiles: list, use", () => import("./profile.ts").then((m) => m.profileCommands)],
  ["whoami", "show the API token in use, and its role", () => import("./whoami.ts").then((m) => m.whoamiCommand)],
  [
    "ping",
    "check that the service is ready for reads, or with --changes for changes; needs no token",
    () => import("./ping.ts").then((m) => m.pingCommand),
  ],
  ["env", "environments: create, list, get, delete", () => import("./env.ts").then((m) => m.envCommands)],
  [
    "token",
    "API tokens: create, list, update, rotate, revoke, lookup",
    () => import("./token.ts").then((m) => m.tokenCommands),
  ],
  [
    "group",
    "user groups: list, get, create, update, rotate, revoke, delete",
    () => import("./group.ts").then((m) => m.groupCommands),
  ],
  [
    "viewer",
    "viewers: resolve a token or a viewer session; viewer sessions: create, revoke",
    () => import("./viewer.ts").then((m) => m.viewerCommands),
  ],
  [
    "signing-key",
    "keys that sign viewer sessions: list, rotate",
    () => import("./signing-key.ts").then((m) => m.signingKeyCommands),
  ],
  [
    "import",
    "import user groups with their tokens, from a file or the hosted service",
    () => import("./import.ts").then((m) => m.importCommand),
  ],
  ["export", "export user groups for import", () => import("./export.ts").then((m) => m.exportCommand)],
  [
    "audit",
    "show changes and who made them; --follow shows new changes as they happen",
    () => import("./audit.ts").then((m) => m.auditCommand),
  ],
  ["keys", "keys of TOKEN_KEYS: generate, check, rotate", () => import("./keys.ts").then((m) => m.keysCommands)],
  ["store", "the data in Redis: accept", () => import("./store.ts").then((m) => m.storeCommands)],
  ["completion", "completion for bash, zsh or fish", () => import("./completion.ts").then((m) => m.completionCommand)],
];
