/**
 * Parses JSON. Returns undefined if the text is not JSON. Throws no error, because the error would contain the text,
 * and the text may be a token.
 */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
