/** Invisible characters, and characters that reorder or move others: controls, formats, separators, and spaces at an end. */
const UNSEEN = /([\p{C}\p{DI}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}|^ | $)/u;

/** Splits a text into readable parts and the code points of invisible characters, such as `U+202E`. */
export function visibleParts(text: string): readonly { readonly text: string; readonly isCodePoint: boolean }[] {
  return text
    .split(UNSEEN)
    .map((part, i) => {
      const isCodePoint = i % 2 === 1;
      const number = part.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
      return { text: isCodePoint ? `U+${number}` : part, isCodePoint };
    })
    .filter((part) => part.text !== "");
}

/** A text whose invisible characters are written as code points, for places that show plain text. */
export function visibleText(text: string): string {
  return visibleParts(text)
    .map((part) => part.text)
    .join("");
}

/** The maximum length of a shown id, in characters. A longer id is cut to this length. */
const MAX_SHOWN = 40;

/** Cuts a long id in the middle. Both ends stay, because ids often differ at the end. */
export function cutText(id: string): string {
  const all = [...id];
  if (all.length <= MAX_SHOWN) return id;
  return `${all.slice(0, MAX_SHOWN - 16).join("")}…${all.slice(-15).join("")}`;
}

/** Shows a text that somebody else chose. Characters that change the look of the text appear as code points. */
export function Visible({ text }: { readonly text: string }) {
  return (
    <>
      {visibleParts(text).map((part, i) =>
        part.isCodePoint ? (
          <span class="codepoint" key={i}>
            {part.text}
          </span>
        ) : (
          part.text
        ),
      )}
    </>
  );
}

/**
 * Shows an id, cut if it is long. The whole id appears on hover, and screen readers read the whole id. @param href the
 * address of its page
 */
export function Id({ id, href }: { readonly id: string; readonly href?: string | undefined }) {
  const cut = cutText(id);
  const content =
    cut === id ? (
      <Visible text={id} />
    ) : (
      <>
        <span aria-hidden>
          <Visible text={cut} />
        </span>
        <span class="unseen">
          <Visible text={id} />
        </span>
      </>
    );
  const title = cut === id ? undefined : visibleText(id);
  if (href === undefined)
    return (
      <span class="id" title={title}>
        {content}
      </span>
    );
  return (
    <a class="id" href={href} title={title}>
      {content}
    </a>
  );
}
