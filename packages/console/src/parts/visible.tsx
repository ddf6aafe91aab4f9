/**
 * Matches invisible characters, and characters that reorder other characters: control characters, format characters,
 * separators, and a space at the start or end of the text.
 */
const UNSEEN = /([\p{C}\p{DI}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}|^ | $)/u;

/** Splits a text at the matches of `UNSEEN`. Replaces each matched character with its code point, such as `U+202E`. */
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

/** Like `Visible`, but returns plain text. Use this function for attributes and other places without markup. */
export function visibleText(text: string): string {
  return visibleParts(text)
    .map((part) => part.text)
    .join("");
}

/** The maximum length of a shown id, in characters. */
const MAX_SHOWN = 40;

/** Removes the middle of a long id. Keeps the end, because ids often differ only at the end. */
export function cutText(id: string): string {
  const all = [...id];
  if (all.length <= MAX_SHOWN) return id;
  return `${all.slice(0, MAX_SHOWN - 16).join("")}…${all.slice(-15).join("")}`;
}

/** Shows a text of unknown origin. Invisible and reordering characters appear as code points such as `U+202E`. */
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

/** Shows an id. A long id is cut, but the whole id appears on hover, and screen readers read the whole id. */
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
  const Tag = href === undefined ? "span" : "a";
  return (
    <Tag class="id" href={href} title={cut === id ? undefined : visibleText(id)}>
      {content}
    </Tag>
  );
}
