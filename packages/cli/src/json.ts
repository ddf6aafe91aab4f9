/** Parses JSON. @returns undefined if the text is not JSON. An error of the parser would quote the text, perhaps a token */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
