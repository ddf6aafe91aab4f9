import type { CommandEntry } from "./command.ts";

/** All commands, in the order of the help. A new one is a file of its own, and an entry here. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "login",
    description: "keep where a service is, and the token for it, as a profile",
    load: async () => (await import("./login.ts")).loginCommand,
  },
  {
    name: "logout",
    description: "forget a profile and its token",
    load: async () => (await import("./login.ts")).logoutCommand,
  },
  {
    name: "profile",
    description: "profiles: list, use",
    load: async () => (await import("./profile.ts")).profileCommands,
  },
  {
    name: "whoami",
    description: "whose the token is, and what it may do",
    load: async () => (await import("./whoami.ts")).whoamiCommand,
  },
  {
    name: "ping",
    description: "whether the service is ready for reads, with --changes for changes; needs no token",
    load: async () => (await import("./ping.ts")).pingCommand,
  },
  {
    name: "env",
    description: "environments: create, list, get, delete",
    load: async () => (await import("./env.ts")).envCommands,
  },
  {
    name: "token",
    description: "API tokens: create, list, update, rotate, revoke, lookup",
    load: async () => (await import("./token.ts")).tokenCommands,
  },
  {
    name: "group",
    description: "user groups: list, get, create, update, rotate, revoke, delete",
    load: async () => (await import("./group.ts")).groupCommands,
  },
  {
    name: "viewer",
    description: "viewers: resolve a token or a viewer session; viewer sessions: create, revoke",
    load: async () => (await import("./viewer.ts")).viewerCommands,
  },
  {
    name: "signing-key",
    description: "keys that sign viewer sessions: list, rotate",
    load: async () => (await import("./signing-key.ts")).signingKeyCommands,
  },
  {
    name: "import",
    description: "import user groups with their tokens, from a file or the hosted service",
    load: async () => (await import("./import.ts")).importCommand,
  },
  {
    name: "export",
    description: "export user groups for import",
    load: async () => (await import("./export.ts")).exportCommand,
  },
  {
    name: "audit",
    description: "who changed what, and what changes as it happens",
    load: async () => (await import("./audit.ts")).auditCommand,
  },
  {
    name: "keys",
    description: "keys of TOKEN_KEYS: generate, check, rotate",
    load: async () => (await import("./keys.ts")).keysCommands,
  },
  {
    name: "store",
    description: "the data in Redis: accept",
    load: async () => (await import("./store.ts")).storeCommands,
  },
  {
    name: "completion",
    description: "completion for bash, zsh or fish",
    load: async () => (await import("./completion.ts")).completionCommand,
  },
];
