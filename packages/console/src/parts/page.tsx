import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** The frame of a page. Its heading gets the focus when the page is shown. */
export function Page({
  title,
  detail,
  children,
}: {
  readonly title: string;
  /** What the page is about, such as the id of a user group. */
  readonly detail?: string | undefined;
  readonly children: ComponentChildren;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  const whole = detail === undefined ? title : `${title} ${detail}`;
  // A layout effect runs before the user can move the focus.
  useLayoutEffect(() => {
    document.title = `${whole} – User Group Service`;
    heading.current?.focus();
  }, [whole]);
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>
        {title} {detail !== undefined && <span class="id">{detail}</span>}
      </h1>
      {children}
    </>
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
