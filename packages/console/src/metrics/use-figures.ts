import { InvalidInput } from "../../../operator/src/input.ts";
import { useWatched, type Watched } from "../parts/watch.ts";
import { type Figures, figuresOf, isSameProcess } from "./figures.ts";
import { parseScrape, type Scrape } from "./scrape.ts";

/** How often metrics are read, in milliseconds. */
export const INTERVAL_MS = 5000;
/** The time that figures cover, in milliseconds. */
const WINDOW_MS = 60_000;
/** The timeout of a read, in milliseconds. */
const TIMEOUT_MS = 10_000;

/** The last scrapes of the service, and their figures. */
interface Measurement {
  readonly scrapes: readonly Scrape[];
  /** The figures of the last minute. Undefined: fewer than two scrapes so far. */
  readonly figures: Figures | undefined;
  /** Whether the last scrape was of another process than those before, which resets the figures. */
  readonly isOther: boolean;
}

/** Reads the metrics of the service while the page is visible. */
export function useFigures(): Watched<Measurement> {
  return useWatched<Measurement>(
    async ({ value: before }, signal) => {
      const scrape = await read(signal);
      const last = before?.scrapes.at(-1);
      const isOther = last !== undefined && !isSameProcess(last, scrape);
      const recent = (before?.scrapes ?? []).filter(({ atMs }) => scrape.atMs - atMs <= WINDOW_MS + INTERVAL_MS / 2);
      const scrapes = isOther ? [scrape] : [...recent, scrape];
      const [first = scrape] = scrapes;
      return { scrapes, figures: first === scrape ? undefined : figuresOf(first, scrape), isOther };
    },
    () => INTERVAL_MS,
  );
}

/** Reads `/metrics`, which needs no token. @throws InvalidInput if it cannot be read */
async function read(signal: AbortSignal): Promise<Scrape> {
  const url = new URL("../metrics", document.baseURI);
  let answer: Response;
  try {
    const headers = { accept: "text/plain" };
    answer = await fetch(url, { headers, signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]) });
  } catch {
    throw new InvalidInput(`${url.pathname} did not answer: the service may be unavailable.`);
  }
  if (!answer.ok)
    throw new InvalidInput(
      `${url.pathname} answered ${answer.status}: the service could not collect its metrics, or a proxy blocks this path.`,
    );
  const scrape = parseScrape(await answer.text(), performance.now());
  if (![...scrape.series.values()].some(({ name }) => name === "grpc_server_handled_total"))
    throw new InvalidInput(`${url.pathname} did not return the metrics of the service. A proxy may have answered.`);
  return scrape;
}
