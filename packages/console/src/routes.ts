import { computed, signal } from "@preact/signals";
import { leave, leaving } from "./parts/unsaved.ts";

/** The parameters of a page. The address contains the parameters, so a parameter must not be secret. */
export interface Params {
  /** The environment of the page, in the form `NAME/TAG`. */
  readonly env?: string;
  readonly [name: string]: string | undefined;
}

export interface Route {
  /** The path of a page. Empty for the first page. */
  readonly path: string;
  readonly params: Params;
}

/** The address of the shown page, from `#` on. While a confirmation is open, `location.hash` may differ. */
const hash = signal(location.hash);
addEventListener("hashchange", follow);

/** The shown page, parsed from an address such as `#/group?env=acme%2FCustomer&id=a`. */
export const route = computed((): Route => parseHash(hash.value));

/** Returns the identity of the page of a route. Filters are not a part of the identity. */
export function pageOf({ path, params }: Route): string {
  return JSON.stringify([path, params.env, params["id"]]);
}

/** Shows the page of the address. If the user leaves a page with unsaved text, the user must confirm first. */
function follow(): void {
  const wanted = location.hash;
  const show = () => {
    leaving.value = undefined;
    hash.value = wanted;
  };
  if (pageOf(parseHash(wanted)) === pageOf(route.value)) show();
  else leave(show);
}

/** Stays on the shown page, and restores the address of this page. */
export function stay(): void {
  leaving.value = undefined;
  if (location.hash !== hash.value) location.hash = hash.value;
}

function parseHash(text: string): Route {
  const [path = "", query = ""] = text.replace(/^#\/?/, "").split("?", 2);
  return { path, params: Object.fromEntries(new URLSearchParams(query)) };
}

/** Returns the address of a page. Empty parameters are omitted. */
export function hrefOf(path: string, params: Params = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => !!entry[1]);
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query && `?${query}`}`;
}

/**
 * Goes to a page.
 *
 * @param isReplacing whether the new page replaces the shown page in the history of the browser, for example because
 *   the resource of the shown page was deleted
 */
export function go(href: string, isReplacing = false): void {
  // Does not wait for `hashchange`, because the next call of `announce` must belong to the new page.
  if (isReplacing) {
    location.replace(href);
    hash.value = location.hash;
  } else {
    location.hash = href;
    follow();
  }
}
