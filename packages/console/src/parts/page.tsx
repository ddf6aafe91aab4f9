import { type ComponentChildren, createContext } from "preact";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { SecretDialog, type ShownSecret } from "./secret.tsx";
import { Id } from "./visible.tsx";

const ShowSecret = createContext<(secret: ShownSecret) => void>(() => {});

/** Returns a function that shows a token once, in a dialog. */
export function useSecret(): (secret: ShownSecret) => void {
  return useContext(ShowSecret);
}

/** The frame of a page. Its heading gets the focus when the page is shown. */
export function Page({
  title,
  detail,
  beside,
  actions,
  children,
}: {
  readonly title: string;
  /** The subject of the page, such as the id of a user group. */
  readonly detail?: string | undefined;
  /** Beside the heading: links to related pages, and badges. */
  readonly beside?: ComponentChildren;
  /** The buttons of the page, opposite to the heading. */
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  const [secret, showSecret] = useState<ShownSecret>();
  const heading = useRef<HTMLHeadingElement>(null);
  const whole = detail === undefined ? title : `${title} ${detail}`;
  // A layout effect runs before the user can move the focus.
  useLayoutEffect(() => {
    document.title = `${whole} – User Group Service`;
    heading.current?.focus();
  }, [whole]);
  return (
    <ShowSecret.Provider value={showSecret}>
      <div class="heading">
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title} {detail !== undefined && <Id id={detail} />}
          </h1>
          {beside}
        </div>
        {actions && <div class="buttons">{actions}</div>}
      </div>
      {children}
      {secret && <SecretDialog {...secret} onClose={() => showSecret(undefined)} />}
    </ShowSecret.Provider>
  );
}

/** A card with its own heading. @param actions the buttons opposite to the heading */
export function Section({
  title,
  actions,
  children,
}: {
  readonly title: string;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  return (
    <section class="card">
      <div class="card-heading">
        <h2>{title}</h2>
        {actions && <div class="buttons">{actions}</div>}
      </div>
      {children}
    </section>
  );
}
