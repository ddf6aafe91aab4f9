import { type ComponentChildren, createContext } from "preact";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { SecretDialog, type ShownSecret } from "./secret.tsx";
import { Id } from "./visible.tsx";

const ShowSecret = createContext<(secret: ShownSecret) => void>(() => {});

/** Returns a function that shows a secret once, in a dialog. */
export function useSecret(): (secret: ShownSecret) => void {
  return useContext(ShowSecret);
}

/** Shows a page and the heading of the page. When the page appears, the heading gets the focus. */
export function Page({
  title,
  detail,
  beside,
  actions,
  children,
}: {
  readonly title: string;
  /** The id of the resource that the page shows. */
  readonly detail?: string | undefined;
  /** Links and badges beside the heading. */
  readonly beside?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  const [secret, showSecret] = useState<ShownSecret>();
  const heading = useRef<HTMLHeadingElement>(null);
  const whole = detail === undefined ? title : `${title} ${detail}`;
  // A layout effect runs before the user can move the focus. An ordinary effect could run later, and take the focus
  // from an element that the user has just focused.
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

/** Shows links and badges in a row. */
export function Links({ children }: { readonly children: readonly ComponentChildren[] }) {
  return <ul class="links">{children.map((child, i) => child && <li key={i}>{child}</li>)}</ul>;
}

/** @param actions the buttons on the right of the heading */
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
