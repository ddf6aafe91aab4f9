import type { ComponentType } from "preact";
import type { Params } from "../routes.ts";
import type { Session } from "../session/session.ts";

/** The properties of every page. */
export interface PageProps {
  readonly session: Session;
  readonly params: Params;
}

/** A page of the console. */
export interface PageOfConsole {
  /** Its name in the address. */
  readonly path: string;
  /** What the navigation calls it; undefined: another page leads to it. */
  readonly link?: string;
  /** Whether it is of one environment, which `ADMIN_TOKEN` has to choose first. */
  readonly isOfEnvironment: boolean;
  readonly show: ComponentType<PageProps>;
}
