import { type ComponentChildren, createContext } from "preact";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Secret, type ShownSecret } from "./copy.tsx";

const ShowSecret = createContext<(secret: ShownSecret) => void>(() => {});

/** Returns a function that shows a token once, at the top of the page. */
export function useSecret(): (secret: ShownSecret) => void {
  return useContext(ShowSecret);
}

/** The frame of a page. Its heading gets the focus when the page is shown. */
export function Page({
  title,
  detail,
  children,
}: {
  readonly title: string;
  /** The subject of the page, such as the id of a user group. */
  readonly detail?: string | undefined;
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
      <h1 ref={heading} tabIndex={-1}>
        {title} {detail !== undefined && <span class="id">{detail}</span>}
      </h1>
      {secret && <Secret {...secret} onClose={() => showSecret(undefined)} />}
      {children}
    </ShowSecret.Provider>
  );
}

/** A part of a page with its own heading. */
export function Section({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section>
      <h2>{title}</h2>
      {children}
    </section>
  );
}
