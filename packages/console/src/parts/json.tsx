/** Matches a JSON token. Group 1 matches a key, group 2 a string, and group 3 a number or a keyword. */
const TOKEN = /("(?:\\.|[^"\\])*"(?=\s*:))|("(?:\\.|[^"\\])*")|(-?\b\d[\d.eE+-]*\b|\btrue\b|\bfalse\b|\bnull\b)/;

/**
 * The CSS classes of the parts that `split` returns. For each token, `split` returns four parts: the text before the
 * token, and the three groups.
 */
const CLASSES = [undefined, "key", "text", "value"];

/** Splits JSON into tokens. `kind` is the CSS class of the token, or undefined for punctuation and whitespace. */
export function jsonTokens(json: string): readonly { readonly text: string; readonly kind: string | undefined }[] {
  const parts = json.split(TOKEN).map((text, i) => ({ text, kind: CLASSES[i % CLASSES.length] }));
  // Drops empty texts, and the undefined results of groups that did not match.
  return parts.filter(({ text }) => text);
}

export function Json({ text }: { readonly text: string }) {
  return (
    <pre class="json">
      {jsonTokens(text).map((token, i) =>
        token.kind ? (
          <span class={token.kind} key={i}>
            {token.text}
          </span>
        ) : (
          token.text
        ),
      )}
    </pre>
  );
}
