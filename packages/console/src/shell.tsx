import { ChevronsUpDown, LogOut, Menu, Search as SearchIcon, UsersRound, X } from "lucide-preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { formatEnvironmentName } from "../../operator/src/environment-name.ts";
import { PAGES } from "./pages/all.ts";
import { Badge } from "./parts/badge.tsx";
import { Dialog } from "./parts/dialog.tsx";
import { focusHeading } from "./parts/focus.ts";
import { LiveRegion } from "./parts/live.tsx";
import { Page } from "./parts/page.tsx";
import { Time } from "./parts/time.tsx";
import { leave, leaving } from "./parts/unsaved.ts";
import { hrefOf, pageOf, route, stay } from "./routes.ts";
import { Search, searching, useSearchKeys } from "./search/search.tsx";
import { isAskingAgain, session, signOut, useSession } from "./session/session.ts";
import { SignIn, SignInAgain } from "./sign-in.tsx";

export function Shell() {
  const current = session.value;
  return (
    <>
      <button
        type="button"
        class="skip"
        // The address selects the page, and a link to the heading would change the address. So this is a button.
        onClick={focusHeading}
      >
        Skip the navigation
      </button>
      {current && <SideBar />}
      <div class={current ? "page" : "page entry"}>
        <main>{current ? <CurrentPage /> : <SignIn />}</main>
      </div>
      <LiveRegion />
      {current && searching.value && <Search />}
      {current && isAskingAgain.value && <SignInAgain />}
      {leaving.value && <LeaveDialog leavePage={leaving.value} />}
    </>
  );
}

/** Asks the user to confirm the loss of unsaved text. */
function LeaveDialog({ leavePage }: { readonly leavePage: () => void }) {
  return (
    <Dialog title="Leave without saving?" onClose={stay}>
      <p>This page has unsaved text. If you leave the page, the text is lost.</p>
      <p class="buttons">
        <button type="button" class="main" onClick={stay}>
          Stay on this page
        </button>
        <button type="button" class="dangerous" onClick={leavePage}>
          Leave without saving
        </button>
      </p>
    </Dialog>
  );
}

/** Shows the navigation. On a narrow screen, a button opens and closes the navigation. */
function SideBar() {
  const [isOpen, setOpen] = useState(false);
  const shown = pageOf(route.value);
  useSearchKeys();
  useLayoutEffect(() => setOpen(false), [shown]);
  return (
    <header class="side">
      <div class="product">
        <UsersRound aria-hidden />
        User Group Service
        <button type="button" class="plain toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? <X aria-hidden /> : <Menu aria-hidden />}
          <span class="unseen">Menu</span>
        </button>
      </div>
      <div class={isOpen ? "menu open" : "menu"}>
        <Navigation />
        <Identity />
      </div>
    </header>
  );
}

function Identity() {
  const { isRoot, caller } = useSession();
  const { role, displayName, apiTokenId, expireTime } = caller;
  return (
    <div class="identity">
      <p>
        <strong>{isRoot ? "ADMIN_TOKEN" : displayName}</strong>
        {!isRoot && displayName !== apiTokenId && <span class="id small"> {apiTokenId}</span>}
      </p>
      <p class="small">
        {isRoot ? "All environments" : <Badge tone="accent">{role}</Badge>}
        {expireTime && (
          <>
            {" "}
            expires <Time time={expireTime} />
          </>
        )}
      </p>
      <button type="button" class="wide" onClick={() => leave(() => signOut())}>
        <LogOut aria-hidden />
        Sign out
      </button>
    </div>
  );
}

function Navigation() {
  const { isRoot, environment, env } = useSession();
  // The navigation highlights the link of the shown page. If the page has no link, the navigation highlights the
  // closest link that precedes the page in `PAGES`.
  const path = route.value.path || PAGES[0]?.path;
  const shown = PAGES.findIndex((each) => each.path === path);
  const within = PAGES.findLast(({ link }, i) => i <= shown && link !== undefined)?.path;
  const chosen = (
    <span>
      <span class="small">Environment</span>
      <br />
      {environment ? formatEnvironmentName(environment) : "No environment chosen"}
    </span>
  );
  return (
    <>
      {isRoot ? (
        <button
          type="button"
          class="wide"
          onClick={() => {
            searching.value = "environments";
          }}
        >
          {chosen}
          <ChevronsUpDown class="end" aria-hidden />
        </button>
      ) : (
        <p class="product">{chosen}</p>
      )}
      <button
        type="button"
        class="wide"
        onClick={() => {
          searching.value = "everything";
        }}
      >
        <SearchIcon aria-hidden />
        Search <kbd class="end small">Ctrl K</kbd>
      </button>
      <nav aria-label="Pages">
        <ul>
          {PAGES.map(({ path: each, link, icon: Icon, isOfEnvironment }) =>
            link === undefined || (isOfEnvironment && !environment) ? null : (
              <li key={each}>
                <a
                  href={hrefOf(each, { env })}
                  aria-current={each === path ? "page" : each === within ? "true" : undefined}
                >
                  {Icon && <Icon aria-hidden />}
                  {link}
                </a>
              </li>
            ),
          )}
        </ul>
      </nav>
    </>
  );
}

/**
 * Shows the page that the address selects. If the path, the environment or the id in the address changes, the page
 * loses its state. If a new sign-in changes the role or the environment of the token, the page also loses its state.
 */
function CurrentPage() {
  const { caller, environment } = useSession();
  const { path, params } = route.value;
  const found = path === "" ? PAGES[0] : PAGES.find((each) => each.path === path);
  if (!found)
    return (
      <Page title="No such page">
        <p>
          The console has no page at this address. <a href={hrefOf("")}>Go to the first page</a>
        </p>
      </Page>
    );
  if (found.isOfEnvironment && !environment)
    return (
      <Page title={found.link ?? "Environment"}>
        <p class="note">
          ADMIN_TOKEN is valid in all environments. To see this page,{" "}
          <a href={hrefOf("environments")}>choose an environment</a>.
        </p>
      </Page>
    );
  const own = caller.environment && formatEnvironmentName(caller.environment);
  const { env: named = own } = params;
  if (own !== undefined && named !== undefined && named !== own) return <OtherEnvironment own={own} name={named} />;
  const { show: Show } = found;
  const what = [pageOf(route.value), caller.role, own];
  return <Show key={JSON.stringify(what)} params={params} />;
}

/** Explains that the environment in the address is not the environment of the API token. */
function OtherEnvironment({ own, name }: { readonly own: string; readonly name: string }) {
  const { path, params } = route.value;
  const { env: _, ...rest } = params;
  return (
    <Page title="Another environment">
      <p>
        The address names the environment {name}. You are signed in with an API token of {own}.{" "}
        <a href={hrefOf(path, rest)}>Show this page of {own}</a>
      </p>
    </Page>
  );
}
