/** The first group matches a key, the second group a string, the third group a number or a keyword. */
const TOKEN = /("(?:\\.|[^"\\])*"(?=\s*:))|("(?:\\.|[^"\\])*")|(-?\b\d[\d.eE+-]*\b|\btrue\b|\bfalse\b|\bnull\b)/;

/** The classes of the parts in the order of `split`: the text before a token, then the three groups. */
const CLASSES = [undefined, "key", "text", "value"];

/** Splits JSON into tokens. `kind` is the class of a token. Undefined if the token is punctuation or space. */
export function jsonTokens(json: string): readonly { readonly text: string; readonly kind: string | undefined }[] {
  const parts = json.split(TOKEN).map((text, i) => ({ text, kind: CLASSES[i % CLASSES.length] }));
  // A group that does not match is undefined. The text before a token may be empty.
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
