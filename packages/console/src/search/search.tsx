import { signal } from "@preact/signals";
import { Building2, UsersRound } from "lucide-preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { environmentsOf } from "../../../operator/src/pages.ts";
import { countText } from "../../../operator/src/words.ts";
import { PAGES } from "../pages/all.ts";
import { useAnswer } from "../parts/calls.ts";
import { Dialog } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { CheckField } from "../parts/field.tsx";
import { GroupState } from "../parts/message.tsx";
import { Id, Visible } from "../parts/visible.tsx";
import { go, hrefOf, route } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { environmentsWith, findGroups } from "./results.ts";

/** The kind of results that the search dialog shows. Undefined if the dialog is closed. */
export const searching = signal<"everything" | "environments" | undefined>(undefined);

/** Whether the key `/` opens the search. Speech input may trigger `/`, so the user can disable the key (WCAG 2.1.4). */
const hasSlashKey = signal(true);

/** Opens the search when the user presses Ctrl-K or Cmd-K, or `/` outside of form fields. */
export function useSearchKeys(): void {
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      const { key, ctrlKey, metaKey, altKey } = event;
      const isTyping = (event.target as Element).matches("input, select, textarea");
      const isChord = key.toLowerCase() === "k" && (ctrlKey || metaKey) && !altKey;
      const isSlash = key === "/" && !ctrlKey && !metaKey && !altKey && !isTyping && hasSlashKey.value;
      if ((!isChord && !isSlash) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      searching.value = "everything";
    };
    addEventListener("keydown", open);
    return () => {
      removeEventListener("keydown", open);
      searching.value = undefined;
    };
  }, []);
}

/** Shows a dialog that finds pages, environments, and user groups of the current environment. */
export function Search() {
  const { admin, isRoot, environment, env } = useSession();
  const isOfAll = searching.value === "everything";
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const id = useId();
  const option = useRef<HTMLDivElement>(null);
  const wanted = text.trim();
  const isSearched = isOfAll && environment !== undefined && wanted !== "";
  const groups = useAnswer(`search ${isSearched} ${wanted}`, async (abort) =>
    isSearched ? findGroups(admin, { environment, text: wanted }, abort) : undefined,
  );
  const all = useAnswer("environments to search", async (abort) =>
    isRoot ? environmentsOf((page) => admin.listEnvironments(page, { signal: abort })) : [],
  );
  const { path, isOfEnvironment, link } = PAGES.find((each) => each.path === route.value.path) ?? {};
  const targets = [
    ...(groups.value?.groups ?? []).map((group) => ({
      href: hrefOf("group", { env, id: group.providedId }),
      icon: UsersRound,
      content: (
        <>
          <Id id={group.providedId} />{" "}
          <span class="small">
            <Visible text={group.name} />
          </span>{" "}
          {group.suspension && <GroupState {...group} />}
        </>
      ),
    })),
    ...environmentsWith(all.value ?? [], wanted).map((each) => {
      const name = formatEnvironmentName(each);
      // An environment in the results is a link to the current page, for that environment. If the current page is not
      // in the navigation, or shows no environment, the link opens the list of user groups.
      const shown = isOfEnvironment && link !== undefined && path !== undefined ? path : "groups";
      return { href: hrefOf(shown, { env: name }), icon: Building2, content: <>Environment {name}</> };
    }),
    ...PAGES.filter(
      (page) =>
        isOfAll &&
        page.link?.toLowerCase().includes(wanted.toLowerCase()) &&
        (!page.isOfEnvironment || environment !== undefined),
    ).map((page) => ({ href: hrefOf(page.path, { env }), icon: page.icon, content: page.link })),
  ];
  const current = Math.min(chosen, targets.length - 1);
  useLayoutEffect(() => option.current?.scrollIntoView({ block: "nearest" }), [current]);
  const close = () => {
    searching.value = undefined;
  };
  const follow = (target: (typeof targets)[number] | undefined) => {
    if (!target) return;
    close();
    go(target.href);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && !groups.isBusy) follow(targets[current]);
    else if (step !== undefined && targets.length > 0) setChosen((current + step + targets.length) % targets.length);
    else return;
    event.preventDefault();
  };
  const label = isOfAll ? "User group, environment or page" : "Environment";
  const isBusy = groups.isBusy || all.isBusy;
  return (
    <Dialog title={isOfAll ? "Search" : "Choose an environment"} look="search" onClose={close}>
      <div class="field">
        <label for={id}>{label}</label>
        {isOfAll && (
          <p class="small" id={`${id}-hint`}>
            {environment
              ? "An id, the beginning of an id, or a part of a name."
              : "To find user groups, choose an environment first."}
          </p>
        )}
        <input
          id={id}
          role="combobox"
          aria-expanded={targets.length > 0}
          aria-controls={`${id}-results`}
          aria-activedescendant={targets.length > 0 ? `${id}-${current}` : undefined}
          aria-describedby={isOfAll ? `${id}-hint` : undefined}
          aria-autocomplete="list"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setChosen(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <FailureBox error={groups.error ?? all.error} again={groups.error ? groups.again : all.again} />
      {targets.length > 0 && (
        <div class="results" role="listbox" id={`${id}-results`} aria-label="Results">
          {targets.map(({ href, icon: Icon, content }, i) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the search field handles the keys of the list
            <div
              key={href}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === current}
              tabIndex={-1}
              ref={i === current ? option : undefined}
              onClick={() => follow(targets[i])}
            >
              {Icon && <Icon aria-hidden />}
              <span>{content}</span>
            </div>
          ))}
        </div>
      )}
      <p class="small" role="status">
        {isBusy ? "Searching …" : countText(targets.length, "result")}
        {!isBusy &&
          groups.value?.isCut &&
          ". Not all names were searched. To search all names, run ugs group list --name-contains TEXT."}
      </p>
      {isOfAll && (
        <CheckField
          label="Open the search with the key /"
          value={hasSlashKey.value}
          onValue={(value) => {
            hasSlashKey.value = value;
          }}
        />
      )}
    </Dialog>
  );
}
