import {
  Activity,
  Building2,
  KeyRound,
  type LucideIcon,
  MonitorCheck,
  Rocket,
  ScrollText,
  UsersRound,
  Webhook,
} from "lucide-preact";
import type { ComponentType } from "preact";
import { OverviewPage } from "../overview/overview.tsx";
import type { Params } from "../routes.ts";
import { ApiTokenPage } from "./api-token.tsx";
import { ApiTokensPage } from "./api-tokens.tsx";
import { AuditPage } from "./audit.tsx";
import { EnvironmentsPage } from "./environments.tsx";
import { SessionsPage } from "./sessions.tsx";
import { StartPage } from "./start.tsx";
import { UserGroupPage } from "./user-group.tsx";
import { UserGroupsPage } from "./user-groups.tsx";
import { WebhookPage } from "./webhook.tsx";
import { WebhooksPage } from "./webhooks.tsx";

interface ConsolePage {
  /** The name of the page in the address. */
  readonly path: string;
  /** The label in the navigation. Undefined if the navigation does not show the page. */
  readonly link?: string;
  readonly icon?: LucideIcon;
  /** Whether the page shows one environment. If so, a user with `ADMIN_TOKEN` must choose the environment first. */
  readonly isOfEnvironment: boolean;
  readonly show: ComponentType<{ readonly params: Params }>;
}

/** All pages, in the order of the navigation. The first page is the default. */
export const PAGES: readonly ConsolePage[] = [
  { path: "environments", link: "Environments", icon: Building2, isOfEnvironment: false, show: EnvironmentsPage },
  { path: "groups", link: "User groups", icon: UsersRound, isOfEnvironment: true, show: UserGroupsPage },
  { path: "group", isOfEnvironment: true, show: UserGroupPage },
  { path: "tokens", link: "API tokens", icon: KeyRound, isOfEnvironment: false, show: ApiTokensPage },
  { path: "token", isOfEnvironment: true, show: ApiTokenPage },
  { path: "sessions", link: "Viewer sessions", icon: MonitorCheck, isOfEnvironment: true, show: SessionsPage },
  { path: "webhooks", link: "Webhooks", icon: Webhook, isOfEnvironment: true, show: WebhooksPage },
  { path: "webhook", isOfEnvironment: true, show: WebhookPage },
  { path: "audit", link: "Audit", icon: ScrollText, isOfEnvironment: true, show: AuditPage },
  { path: "start", link: "Get started", icon: Rocket, isOfEnvironment: false, show: StartPage },
  { path: "overview", link: "Overview", icon: Activity, isOfEnvironment: false, show: OverviewPage },
];
