import { computed, signal } from "@preact/signals";
import { leave, leaving } from "./parts/unsaved.ts";

/** What a page shows, such as which user group. None of it is secret: it is in the address. */
export type Params = { readonly [name: string]: string };

/** The page that is shown, and its params. */
export interface Route {
  /** The path of a page; empty: none is named. */
  readonly path: string;
  readonly params: Params;
}

/** The environment that a page is of, as `NAME/TAG`. */
export const ENVIRONMENT_PARAM = "env";

/** The part of the address from `#` on, of the page that is shown. */
const hash = signal(location.hash);
addEventListener("hashchange", follow);

/** The route in the address, such as `#/group?env=acme%2FCustomer&id=a`. */
export const route = computed((): Route => parseHash(hash.value));

/** Names the page of a route. A filter shows the same page in another way. */
export function pageOf({ path, params }: Route): string {
  return JSON.stringify([path, params[ENVIRONMENT_PARAM], params["id"]]);
}

/** Shows the page that the address names. If unsaved text would be lost, the person is asked first. */
function follow(): void {
  const wanted = location.hash;
  const show = () => {
    leaving.value = undefined;
    hash.value = wanted;
  };
  if (pageOf(parseHash(wanted)) === pageOf(route.value)) show();
  else leave(show);
}

/** Stays on the page, after the address changed or the person was asked. */
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
 * Goes to a page. @param isReplacing whether to remove the page before from the history, because what it shows is gone
 */
export function go(href: string, isReplacing = false): void {
  // The event comes too late: an announcement belongs to the page that is shown.
  if (isReplacing) {
    location.replace(href);
    hash.value = location.hash;
  } else {
    location.hash = href;
    follow();
  }
}
