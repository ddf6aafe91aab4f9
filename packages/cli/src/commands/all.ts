import type { AddCommands } from "./command.ts";
import { envCommands } from "./env.ts";
import { pingCommand } from "./ping.ts";
import { whoamiCommand } from "./whoami.ts";

/** All commands, in the order of the help. A new one is a file of its own, and a line here. */
export const COMMANDS: readonly AddCommands[] = [whoamiCommand, pingCommand, envCommands];
