import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { newListener } from "@user-group-service/testing/opened";

export interface Customer {
  readonly token: string;
  readonly name: string;
  readonly provided_id: string;
  readonly properties: object | null;
  readonly [field: string]: unknown;
}

/** Returns true if the function has answered the request. Returns false if the server must return the page. */
export type Answer = (page: number, response: ServerResponse) => boolean;

/** A fake of the hosted service (Explo). The fake behaves as the documentation of the hosted service describes. */
export interface Hosted {
  readonly url: string;
  readonly token: string;
  /** The customer list. A test may change the list between two requests. */
  readonly customers: Customer[];
  /** The page numbers of all requests that contained the token, in the order of the requests. */
  readonly requested: number[];
  /** Runs before each response that contains a page. */
  before: Answer;
}

/** Creates a customer with a 64-character token. */
export function customer(i: number, given: Partial<Customer> = {}): Customer {
  const mapping = { "40": "213", "134": i };
  const properties = i % 2 === 0 ? { region: `r${i % 7}` } : null;
  return {
    token: createHash("sha256").update(`token ${i}`).digest("hex"),
    name: `Customer ${i}`,
    provided_id: `customer-${i}`,
    is_demo_group: false,
    emails: ["somebody@example.com"],
    group_tags: [],
    properties,
    computed_properties: properties ?? {},
    access_group: "Production",
    parent_schema_datasource_mapping: mapping,
    computed_parent_schema_datasource_mapping: mapping,
    hierarchy_level: "Level 1",
    ...given,
  };
}

export async function newHosted(count: number): Promise<Hosted> {
  const customers = Array.from({ length: count }, (_, i) => customer(i));
  const requested: number[] = [];
  const hosted = { token: "the-token-of-the-hosted-service", customers, requested, before: (() => false) as Answer };
  const server = createServer((request, response) => answer(hosted, request, response));
  return Object.assign(hosted, { url: await newListener(server) });
}

function answer(hosted: Omit<Hosted, "url">, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? "", "http://hosted");
  const json = (status: number, value: object) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
  // The hosted service returns this error if the path has no trailing slash.
  if (request.method !== "GET" || url.pathname !== "/v2/api/customers/") {
    json(405, { detail: "Method not allowed" });
  } else if (request.headers["explo-authorization"] !== `Token ${hosted.token}`) {
    json(401, { detail: "Invalid token." });
  } else {
    const page = Number(url.searchParams.get("page") ?? 1);
    const size = Math.min(1000, Number(url.searchParams.get("page_size") ?? 20));
    hosted.requested.push(page);
    if (hosted.before(page, response)) return;
    const customers = hosted.customers.slice((page - 1) * size, page * size);
    const isBehind = page > 1 && customers.length === 0;
    if (isBehind) json(404, { detail: "Invalid page." });
    else json(200, { total_count: hosted.customers.length, results: { customers } });
  }
}
