import { auditCommand } from "./audit.ts";
import type { DefineCommand } from "./command.ts";
import { completionCommand } from "./completion.ts";
import { envCommands } from "./env.ts";
import { eventsCommand } from "./events.ts";
import { exportCommand } from "./export.ts";
import { groupCommands } from "./group.ts";
import { importCommand } from "./import.ts";
import { keysCommands } from "./keys.ts";
import { loginCommand, logoutCommand } from "./login.ts";
import { metricsCommand } from "./metrics.ts";
import { pingCommand } from "./ping.ts";
import { profileCommands } from "./profile.ts";
import { signingKeyCommands } from "./signing-key.ts";
import { storeCommands } from "./store.ts";
import { tokenCommands } from "./token.ts";
import { viewerCommands } from "./viewer.ts";
import { webhookCommands } from "./webhook.ts";
import { whoamiCommand } from "./whoami.ts";

/** All commands, in the order of the help. */
export const COMMANDS: readonly (readonly [name: string, description: string, define: DefineCommand])[] = [
  ["login", "store the URL of a service and a token for it as a profile", loginCommand],
  ["logout", "delete a profile and its token", logoutCommand],
  ["profile", "profiles: list, use", profileCommands],
  ["whoami", "show the API token in use, and its role", whoamiCommand],
  ["ping", "check that the service is ready for reads, or with --changes for changes; needs no token", pingCommand],
  ["env", "environments: create, list, get, delete", envCommands],
  ["token", "API tokens: create, list, update, rotate, revoke, lookup", tokenCommands],
  ["group", "user groups: list, get, create, update, rotate, revoke, delete", groupCommands],
  ["viewer", "viewers: resolve a token or a viewer session; viewer sessions: create, revoke", viewerCommands],
  ["signing-key", "keys that sign viewer sessions: list, rotate", signingKeyCommands],
  [
    "webhook",
    "webhooks: create, list, get, update, enable, disable, rotate-secret, test, redeliver, delete",
    webhookCommands,
  ],
  ["import", "import user groups with their tokens, from a file or the hosted service", importCommand],
  ["export", "export user groups for import", exportCommand],
  ["audit", "show changes and who made them; --follow shows new changes as they happen", auditCommand],
  ["metrics", "show the calls of the last hour: numbers, durations and errors, every ten seconds", metricsCommand],
  ["events", "write the changes of an environment as lines of JSON, for other systems", eventsCommand],
  ["keys", "keys of TOKEN_KEYS: generate, check, rotate", keysCommands],
  ["store", "the data in Redis: accept", storeCommands],
  ["completion", "completion for bash, zsh or fish", completionCommand],
];
