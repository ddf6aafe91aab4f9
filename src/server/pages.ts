import { existsSync } from "node:fs";
import type { Setting } from "../config/settings.ts";
import type { Logger } from "../observability/log.ts";
import { CONSOLE_FILES } from "../rest/pages/console.ts";
import { DOCS_FILES } from "../rest/pages/docs.ts";
import { mayRead } from "./permissions.ts";
import { isReporter } from "./worker.ts";

interface Page {
  readonly files: readonly string[];
  readonly paths: string;
  readonly setting: Setting;
}

export const DOCS: Page = { files: DOCS_FILES, paths: "/openapi.json and /docs/", setting: "DOCS" };
export const CONSOLE: Page = { files: CONSOLE_FILES, paths: "/console/", setting: "CONSOLE" };

/** Returns whether the process can read the files of a page. If the process cannot read them, logs the reason. */
export async function canServe({ files, paths, setting }: Page, logger: Logger): Promise<boolean> {
  const isAllowed = await mayRead(files);
  if (isAllowed && files.every((file) => existsSync(file))) return true;
  const reason = isAllowed
    ? `${paths} is disabled because its files are missing: run npm run build`
    : `${paths} is disabled because Deno may not read its files: add them to --allow-read`;
  if (isReporter()) logger.warn({ files }, `${reason}, or set ${setting}=off`);
  return false;
}
