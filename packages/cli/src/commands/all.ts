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

/** All commands, in the order in which the help lists them. */
export const COMMANDS: { readonly [name: string]: DefineCommand } = {
  login: loginCommand,
  logout: logoutCommand,
  profile: profileCommands,
  whoami: whoamiCommand,
  ping: pingCommand,
  env: envCommands,
  token: tokenCommands,
  group: groupCommands,
  viewer: viewerCommands,
  "signing-key": signingKeyCommands,
  webhook: webhookCommands,
  import: importCommand,
  export: exportCommand,
  audit: auditCommand,
  metrics: metricsCommand,
  events: eventsCommand,
  keys: keysCommands,
  store: storeCommands,
  completion: completionCommand,
};
