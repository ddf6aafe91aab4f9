import { type ViewerSessionSource, type ViewerSessionState, viewerSessionSource } from "../src/browser.ts";

/** The functions that tests call in the page. These functions run in the browser. */
export interface Page {
  /** Creates a source that sends requests to `/session/HOW`. */
  start(how: string, timeoutMs?: number): void;
  states(): readonly { status: string; session: string | undefined; error: string | undefined }[];
  get(): Promise<string>;
  replace(refused?: string): Promise<string>;
  getMany(count: number): Promise<readonly string[]>;
  dispose(): void;
}

let source: ViewerSessionSource | undefined;
const states: ViewerSessionState[] = [];

function running(): ViewerSessionSource {
  if (!source) throw new Error("start was not called");
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
  states: () => states.map(({ status, session, error }) => ({ status, session, error: error?.message })),
  get: () => messageOf(running().get()),
  replace: (refused) => messageOf(running().replace(refused)),
  getMany: (count) => Promise.all(Array.from({ length: count }, () => messageOf(running().get()))),
  dispose: () => running().dispose(),
};

Object.assign(globalThis, { page });
