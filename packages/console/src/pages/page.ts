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
  /** Its label in the navigation. Undefined: it is not in the navigation. */
  readonly link?: string;
  /** Whether it shows one environment, which `ADMIN_TOKEN` has to choose first. */
  readonly isOfEnvironment: boolean;
  readonly show: ComponentType<PageProps>;
}
