import { computed, signal } from "@preact/signals";
import { leave, leaving } from "./parts/unsaved.ts";

/** The subject of a page, such as a user group. The address contains it, so it is not secret. */
export type Params = { readonly [name: string]: string };

/** The current page, and its params. */
export interface Route {
  /** The path of a page. Empty: the first page. */
  readonly path: string;
  readonly params: Params;
}

/** The environment of a page, in the form `NAME/TAG`. */
export const ENVIRONMENT_PARAM = "env";

/** The current page's part of the address, from `#` on. */
const hash = signal(location.hash);
addEventListener("hashchange", follow);

/** The route in the address, such as `#/group?env=acme%2FCustomer&id=a`. */
export const route = computed((): Route => parseHash(hash.value));

/** Identifies the page of a route. Filters do not change it. */
export function pageOf({ path, params }: Route): string {
  return JSON.stringify([path, params[ENVIRONMENT_PARAM], params["id"]]);
}

/** Shows the page of the address. If unsaved text would be lost, the user must confirm first. */
function follow(): void {
  const wanted = location.hash;
  const show = () => {
    leaving.value = undefined;
    hash.value = wanted;
  };
  if (pageOf(parseHash(wanted)) === pageOf(route.value)) show();
  else leave(show);
}

/** Stays on the page, and restores the address. */
export function stay(): void {
  leaving.value = undefined;
  if (location.hash !== hash.value) location.hash = hash.value;
}

/** Parses the part of an address from `#` on. */
function parseHash(text: string): Route {
  const [path = "", query = ""] = text.replace(/^#\/?/, "").split("?", 2);
  return { path, params: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a page. Params that are empty are left out. */
export function hrefOf(path: string, params: { readonly [name: string]: string | undefined } = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => !!entry[1]);
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query && `?${query}`}`;
}

/**
 * Goes to a page. @param isReplacing whether to remove the current page from the history, because its content was deleted
 */
export function go(href: string, isReplacing = false): void {
  // Do not wait for the event, because announcements belong to the current page.
  if (isReplacing) {
    location.replace(href);
    hash.value = location.hash;
  } else {
    location.hash = href;
    follow();
  }
}
