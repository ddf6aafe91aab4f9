import { Random } from "../random.ts";
import type { Exchange } from "./exchange.ts";
import { lengthOf, mutate, splitAt } from "./mutate.ts";
import type { Script } from "./script.ts";

/** One in this many scripts is a valid exchange, split at the next position. */
const SPLIT_EVERY = 3;

/** A prime that is greater than the number of positions, so every position is reached. */
const STEP = 2 ** 31 - 1;

/** An endless sequence of scripts, determined by the seed. */
export function* cases(seed: number, corpus: readonly Exchange[]): Generator<Script, never> {
  const random = new Random(seed);
  const splits = everySplit(corpus, random);
  for (let i = 0; ; i++) {
    if (i % SPLIT_EVERY === 0) yield splits.next().value;
    else yield mutate(new Random(random.below(2 ** 32)), corpus);
  }
}

/** An endless sequence of all exchanges, each split at every position, from a random start. */
function* everySplit(corpus: readonly Exchange[], random: Random): Generator<Script, never> {
  const places = corpus.flatMap((exchange) =>
    Array.from({ length: lengthOf(exchange) }, (_, at) => ({ exchange, at })),
  );
  for (let at = random.below(places.length); ; at = (at + STEP) % places.length) {
    const place = places[at];
    if (place) yield splitAt(place.exchange, place.at);
  }
}
