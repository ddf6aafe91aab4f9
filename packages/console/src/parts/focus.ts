/** Finds the heading of the page that is shown. */
function heading(): HTMLElement | null {
  return document.querySelector<HTMLElement>("main h1");
}

/** Moves the focus to the heading of the page. */
export function focusHeading(): void {
  heading()?.focus();
}

/**
 * Returns the focus to an element, or to the heading of the page if the element was removed. If the element is removed
 * later, such as with the row of a deleted environment, the heading gets the focus.
 */
export function giveFocusBack(element: Element | null): void {
  // Nothing had the focus: some browsers do not focus a clicked button.
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
