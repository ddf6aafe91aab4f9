import { type ViewerSessionSource, type ViewerSessionState, viewerSessionSource } from "../src/browser.ts";

/** What the script of the page does for a test; it runs in the browser. */
export interface Page {
  /** Begins, by requests to `/session`; `how` is a part of the path, by which the test knows them. */
  start(how: string, timeoutMs?: number): void;
  /** The states that were told, in short: the status, whether there is a session, and the error. */
  told(): readonly { status: string; session: string | undefined; error: string | undefined }[];
  get(): Promise<string>;
  replace(refused?: string): Promise<string>;
  /** What it takes to get several at once. */
  getMany(count: number): Promise<readonly string[]>;
  dispose(): void;
}

let source: ViewerSessionSource | undefined;
const states: ViewerSessionState[] = [];

function running(): ViewerSessionSource {
  if (!source) throw new Error("it was not started");
  return source;
}

const messageOf = (failure: Promise<string>) => failure.catch((error: Error) => `${error.name}: ${error.message}`);

const page: Page = {
  start(how, timeoutMs) {
    states.length = 0;
    source?.dispose();
    source = viewerSessionSource({
      fetch: (init) => fetch(`/session/${how}`, init),
      onChange: (state) => states.push(state),
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  },
  told: () => states.map(({ status, session, error }) => ({ status, session, error: error?.message })),
  get: () => messageOf(running().get()),
  replace: (refused) => messageOf(running().replace(refused)),
  getMany: (count) => Promise.all(Array.from({ length: count }, () => messageOf(running().get()))),
  dispose: () => running().dispose(),
};

Object.assign(globalThis, { page });
