import { InvalidArgumentError, Option } from "commander";

/** The option of every list. Default: all. */
export function limitOption(): Option {
  return new Option("--limit <n>", "at most so many; default: all").argParser(countOf);
}

/** A whole number of 1 or more. @throws InvalidArgumentError for anything else */
export function countOf(text: string): number {
  const count = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (count < 1) throw new InvalidArgumentError("It must be a whole number of 1 or more.");
  return count;
}
