import { computed, signal } from "@preact/signals";

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

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

/** The route in the address, such as `#/group?env=acme%2FCustomer&id=a`. */
export const route = computed((): Route => parseHash(hash.value));

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
  if (isReplacing) location.replace(href);
  else location.hash = href;
  // The event comes later, when what is announced of the page before may be shown already.
  hash.value = location.hash;
}
