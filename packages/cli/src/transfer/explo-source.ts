import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../../../operator/src/fields.ts";
import { countText } from "../../../operator/src/words.ts";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { isLoopback, parseUrl, tokenFrom, unusedProxyOf } from "../settings.ts";
import type { Shell } from "../shell.ts";
import { exploPages } from "./explo-client.ts";
import { BadRow } from "./group-row.ts";
import { type FileHeader, headerText } from "./header.ts";
import type { PatienceOptions } from "./patience.ts";
import { count } from "./progress.ts";
import { contentOf, type GroupRecord, type GroupSource } from "./records.ts";
import { SeenIds } from "./seen-ids.ts";

/** The options of `ugs import` that concern the hosted service (Explo). */
export interface ExploFlags {
  readonly exploTokenFile?: string;
  readonly exploUrl: string;
  readonly exploValues: "inherited" | "own";
  readonly exploPageSize?: string;
}

const MAX_PAGE_SIZE = 1000;

/** Opens the customer list of the hosted service. @throws Failure if an option is not valid */
export async function openExplo(
  flags: ExploFlags,
  { env, ...options }: PatienceOptions & { readonly env: Shell["env"] },
): Promise<GroupSource> {
  const url = parseUrl("--explo-url", flags.exploUrl);
  if (url.protocol !== "https:" && !isLoopback(url))
    throw usageFailure("--explo-url must be an https URL", "http would expose the tokens");
  const pageSize = flags.exploPageSize === undefined ? MAX_PAGE_SIZE : Number(flags.exploPageSize);
  if (!Number.isInteger(pageSize) || pageSize < 1 || pageSize > MAX_PAGE_SIZE)
    throw usageFailure(`--explo-page-size must be a whole number from 1 to ${MAX_PAGE_SIZE}`);
  const token = await tokenFrom(env, "UGS_EXPLO_TOKEN", flags.exploTokenFile);
  if (token === undefined)
    throw usageFailure("no token of the hosted service is set", "give --explo-token-file FILE or UGS_EXPLO_TOKEN");
  const readPage = exploPages({ ...options, url, pageSize, token, unusedProxy: unusedProxyOf(env) });
  return listedCustomers(readPage, flags.exploValues === "inherited");
}

/** The maximum number of times that an import reads the whole customer list. */
const MAX_PASSES = 5;

/**
 * Reads the customer list page by page, and yields each customer once. If the token of a customer changes during the
 * import, yields the customer again.
 *
 * A pass reads all pages. If a customer is added or removed during a pass, other customers move to other pages, and the
 * pass may miss a customer. For this reason, the import starts another pass until no customer has moved during a pass.
 * There are at most `MAX_PASSES` passes.
 */
function listedCustomers(readPage: ReturnType<typeof exploPages>, isInherited: boolean): GroupSource {
  const header: FileHeader = { snapshotTime: new Date().toISOString(), prefix: "" };
  const seen = new SeenIds();
  let total: number | undefined;
  let [line, inherited, passes, isSettled] = [0, 0, 0, false];

  async function* records(): AsyncGenerator<GroupRecord> {
    while (passes < MAX_PASSES && !isSettled) {
      passes += 1;
      const pass = new SeenIds();
      let [read, isMoved] = [0, false];
      for (let number = 1; ; number++) {
        const page = await readPage(number);
        if (!page || page.customers.length === 0) break;
        if (number > 1 && page.total !== total) isMoved = true;
        total = page.total;
        const known = pass.size;
        for (const customer of page.customers) {
          const row = rowOf(customer, isInherited);
          if (!pass.add(row.key)) isMoved = true;
          if (!seen.add(`${row.key} ${row.token}`)) continue;
          line += 1;
          if (row.isInherited) inherited += 1;
          yield { line, raw: Buffer.from(row.text), ...row.content };
        }
        read += page.customers.length;
        // If the response contains no total, the list ends at the first page that contains no new customer.
        if (page.total === undefined ? pass.size === known : read >= page.total) break;
      }
      isSettled = !isMoved && (total === undefined || pass.size >= total);
      if (passes === MAX_PASSES && seen.size < (total ?? 0))
        throw new Failure(
          `the hosted service reports ${count(total ?? 0)} customers, but lists only ${count(pass.size)}`,
          {
            exitCode: EXIT.unavailable,
            hint: "the hosted service repeats pages, or the list changes all the time: try again, or ask the support of the hosted service",
          },
        );
    }
  }

  return {
    format: "jsonl",
    header,
    firstLines: [headerText(header)],
    records: records(),
    fraction: () => (total === undefined ? undefined : seen.size / Math.max(1, total)),
    warnings: () => [
      ...(isSettled || passes < MAX_PASSES
        ? []
        : ["the customer list changed each time that ugs read it: compare with --verify, or import again later"]),
      ...(inherited === 0
        ? []
        : [
            `the values of parent customers are copied to ${countText(inherited, "group")}, because groups in this service have no parents`,
          ]),
    ],
  };
}

/** Converts a customer to `text`, a line of JSON. `key` is the id of the customer, or `text` if the id is invalid. */
function rowOf(customer: unknown, isInherited: boolean) {
  const given: JsonObject = isObject(customer) ? customer : {};
  const [ownMapping, ownProperties] = [textValues(given["parent_schema_datasource_mapping"]), given["properties"]];
  const { computed_parent_schema_datasource_mapping: allMapping, computed_properties: allProperties } = given;
  const mapping = isInherited ? withInherited(ownMapping, textValues(allMapping)) : ownMapping;
  const properties = isInherited ? withInherited(ownProperties, allProperties) : ownProperties;
  const { provided_id, name, token } = given;
  const fields = { provided_id, name, mapping, properties, token };
  const text = JSON.stringify(fields);
  const content = contentOf(() => {
    if (!isObject(customer)) throw new BadRow("is not a customer");
    if (typeof token !== "string" || token === "") throw new BadRow("token: is missing");
    // `JSON.stringify` has dropped the undefined fields.
    return JSON.parse(text) as typeof fields;
  });
  return {
    key: typeof provided_id === "string" ? provided_id : text,
    token,
    text,
    content,
    isInherited: mapping !== ownMapping || properties !== ownProperties,
  };
}

/** Returns `all` if `all` is an object that differs from `own`. Otherwise, returns `own`. */
function withInherited(own: unknown, all: unknown): unknown {
  return isObject(all) && !isDeepStrictEqual(all, own ?? {}) ? all : own;
}

/** Converts the values of a mapping to texts, because the hosted service may return ids as numbers. */
function textValues(mapping: unknown): unknown {
  if (!isObject(mapping)) return mapping;
  return Object.fromEntries(
    Object.entries(mapping).map(([key, value]) => [key, typeof value === "number" ? String(value) : value]),
  );
}
