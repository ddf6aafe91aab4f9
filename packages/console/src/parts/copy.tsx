import { Copy } from "lucide-preact";
import { announce } from "./live.tsx";

/**
 * Copies a text to the clipboard. Browsers allow copying only on `https:` pages and on localhost.
 *
 * @returns whether the text was copied
 */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** @param what the name of the text in messages, such as `the command` */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const onClick = async () => {
    const isDone = await copyText(text);
    announce(isDone ? `Copied ${what}.` : `The browser does not allow this page to copy. Select ${what} and copy it.`);
  };
  return (
    <button type="button" class="small" title={`Copy ${what}`} onClick={onClick}>
      <Copy aria-hidden />
      <span class="unseen">Copy {what}</span>
    </button>
  );
}
