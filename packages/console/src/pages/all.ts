import { apiTokenPage } from "./api-token.tsx";
import { apiTokensPage } from "./api-tokens.tsx";
import { auditPage } from "./audit.tsx";
import { environmentsPage } from "./environments.tsx";
import { overviewPage } from "./overview.tsx";
import type { PageOfConsole } from "./page.ts";
import { sessionsPage } from "./sessions.tsx";
import { userGroupPage } from "./user-group.tsx";
import { userGroupsPage } from "./user-groups.tsx";

/** Every page, in the order of the navigation. The first is shown where the address names none. */
export const PAGES: readonly PageOfConsole[] = [
  environmentsPage,
  userGroupsPage,
  userGroupPage,
  apiTokensPage,
  apiTokenPage,
  sessionsPage,
  auditPage,
  overviewPage,
];
