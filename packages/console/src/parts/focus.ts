export function focusHeading(): void {
  document.querySelector<HTMLElement>("main h1")?.focus();
}

/** Focuses an element. If the page does not contain the element, or removes it later, focuses the heading. */
export function giveFocusBack(element: Element | null): void {
  // If the body had the focus, do nothing. Some browsers do not focus a clicked button.
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
