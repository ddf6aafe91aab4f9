import { computed, signal } from "@preact/signals";
import { leave, leaving } from "./parts/unsaved.ts";

/** The parameters of a page. The address contains the parameters, so a parameter must not be secret. */
export interface Params {
  /** The environment of the page, in the form `NAME/TAG`. */
  readonly env?: string;
  readonly [name: string]: string | undefined;
}

export interface Route {
  /** The path of a page in `PAGES`. An empty path selects the first page. */
  readonly path: string;
  readonly params: Params;
}

/** The URL hash of the shown page. While `LeaveDialog` is open, `location.hash` may already name another page. */
const hash = signal(location.hash);
addEventListener("hashchange", follow);

/** The shown page, parsed from an address such as `#/group?env=acme%2FCustomer&id=a`. */
export const route = computed((): Route => parseHash(hash.value));

/** Returns a key for the page of a route. The key contains the path, `env` and `id`, but no filters. */
export function pageOf({ path, params }: Route): string {
  return JSON.stringify([path, params.env, params["id"]]);
}

/** Shows the page that `location.hash` selects. If the shown page has unsaved text, the user must confirm first. */
function follow(): void {
  const wanted = location.hash;
  const show = () => {
    leaving.value = undefined;
    hash.value = wanted;
  };
  if (pageOf(parseHash(wanted)) === pageOf(route.value)) show();
  else leave(show);
}

/** Closes the confirmation, and restores the address of the shown page. */
export function stay(): void {
  leaving.value = undefined;
  if (location.hash !== hash.value) location.hash = hash.value;
}

function parseHash(text: string): Route {
  const [path = "", query = ""] = text.replace(/^#\/?/, "").split("?", 2);
  return { path, params: Object.fromEntries(new URLSearchParams(query)) };
}

/** Returns the address of a page. Omits empty parameters. */
export function hrefOf(path: string, params: Params = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => !!entry[1]);
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query && `?${query}`}`;
}

/**
 * Goes to a page.
 *
 * @param isReplacing whether to replace the current entry in the browser history, for example after the resource of
 *   the shown page was deleted. Default: no
 */
export function go(href: string, isReplacing = false): void {
  // The route must change before this function returns. Otherwise, the later `hashchange` event would remove a text
  // that the caller announces after `go`.
  if (isReplacing) {
    location.replace(href);
    hash.value = location.hash;
  } else {
    location.hash = href;
    follow();
  }
}
