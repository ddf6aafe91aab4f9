/** Finds the heading of the page that is shown. */
function heading(): HTMLElement | null {
  return document.querySelector<HTMLElement>("main h1");
}

/** Moves the focus to the heading of the page. */
export function focusHeading(): void {
  heading()?.focus();
}

/**
 * Returns the focus to the element that had it, or to the heading of the page when that element is gone. The same when it is
 * removed later while it still has the focus, such as with the row of an environment that was just deleted.
 */
export function giveFocusBack(element: Element | null): void {
  // Nothing had the focus: some browsers do not focus a button that is clicked.
  if (element === document.body || !(element instanceof HTMLElement)) return;
  if (!element.isConnected) {
    focusHeading();
    return;
  }
  element.focus();
  const watched = new MutationObserver(() => {
    if (element.isConnected && document.activeElement === element) return;
    watched.disconnect();
    if (!element.isConnected && document.activeElement === document.body) focusHeading();
  });
  watched.observe(document.body, { childList: true, subtree: true });
}
