/** The first group matches a key, the second group a string, the third group a number or a keyword. */
const TOKEN = /("(?:\\.|[^"\\])*"(?=\s*:))|("(?:\\.|[^"\\])*")|(-?\b\d[\d.eE+-]*\b|\btrue\b|\bfalse\b|\bnull\b)/;

const CLASSES = ["key", "text", "value"];

/** Splits JSON into tokens. `kind` is the class of a token. Undefined if the token is punctuation or space. */
export function jsonTokens(json: string): readonly { readonly text: string; readonly kind: string | undefined }[] {
  const tokens: { text: string; kind: string | undefined }[] = [];
  let rest = json;
  for (let found = TOKEN.exec(rest); found; found = TOKEN.exec(rest)) {
    const [text, ...groups] = found;
    if (found.index > 0) tokens.push({ text: rest.slice(0, found.index), kind: undefined });
    tokens.push({ text, kind: CLASSES[groups.findIndex((group) => group !== undefined)] });
    rest = rest.slice(found.index + text.length);
  }
  return rest === "" ? tokens : [...tokens, { text: rest, kind: undefined }];
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
