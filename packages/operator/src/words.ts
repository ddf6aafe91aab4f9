/** Formats a number with its noun, such as `1 user group` or `1,204 user groups`. */
export function countText(count: number | bigint, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${Number(count) === 1 ? "" : "s"}`;
}
