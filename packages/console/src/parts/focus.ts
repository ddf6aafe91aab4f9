export function focusHeading(): void {
  document.querySelector<HTMLElement>("main h1")?.focus();
}

/** Focuses an element. If the element is not in the page, or is removed while it has the focus, focuses the heading. */
export function giveFocusBack(element: Element | null): void {
  // Some browsers do not focus a clicked button. The body then has the focus, so there is no focus to restore.
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
