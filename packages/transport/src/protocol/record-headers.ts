import type { HeaderRecord } from "../exchange.ts";

/** Appending an empty value leaves spaces at the ends. HTTP/2 drops headers with such a value. */
const SPACE_AT_ENDS = /^[\t ]+|[\t ]+$/g;
const PLAIN_NAME = /^[a-z0-9-]+$/;
const PLAIN_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * The fetch API's `Headers` on top of a plain record. The common operations (get, set and append of plain headers) work
 * on the record. Any other operation first copies the record to real `Headers`, which are used from then on.
 *
 * It behaves as https://fetch.spec.whatwg.org/#headers-class says.
 */
export class RecordHeaders implements Headers {
  #record: HeaderRecord;
  readonly #writable: boolean;
  #real: Headers | undefined;

  /**
   * @param record headers by lower-case name; HTTP/2 pseudo-headers are ignored
   * @param writable whether the record may be modified; otherwise it stays unchanged
   */
  constructor(record: HeaderRecord, writable = false) {
    this.#record = record;
    this.#writable = writable;
  }

  get(name: string): string | null {
    if (this.#real === undefined && PLAIN_NAME.test(name)) {
      const value = Object.hasOwn(this.#record, name) ? this.#record[name] : undefined;
      if (value === undefined) return null;
      if (typeof value === "string" && PLAIN_VALUE.test(value)) return value;
    }
    return this.#headers().get(name);
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  set(name: string, value: string): void {
    if (this.#real === undefined && this.#writable && isPlain(name, value)) this.#record[name] = value;
    else this.#headers().set(name, value);
  }

  append(name: string, value: string): void {
    if (this.#real === undefined && this.#writable && isPlain(name, value) && !Object.hasOwn(this.#record, name)) {
      this.#record[name] = value;
    } else this.#headers().append(name, value);
  }

  delete(name: string): void {
    this.#headers().delete(name);
  }

  forEach(callback: (value: string, key: string, parent: Headers) => void, thisArg?: unknown): void {
    this.#headers().forEach((value, key) => {
      callback.call(thisArg, value, key, this);
    });
  }

  getSetCookie(): string[] {
    return this.#headers().getSetCookie();
  }

  entries() {
    return this.#headers().entries();
  }

  keys() {
    return this.#headers().keys();
  }

  values() {
    return this.#headers().values();
  }

  [Symbol.iterator]() {
    return this.#headers()[Symbol.iterator]();
  }

  /** The headers as a record, for node:http and node:http2. */
  toRecord(): HeaderRecord {
    return this.#real === undefined ? this.#record : recordOf(this.#real);
  }

  #headers(): Headers {
    this.#real ??= headersOf(this.#record);
    return this.#real;
  }
}

/** Converts a record to `Headers`, without HTTP/2 pseudo-headers. */
export function headersOf(record: HeaderRecord): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(record)) {
    if (value === undefined || name.startsWith(":")) continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) headers.append(name, one);
  }
  return headers;
}

/** Converts `Headers` to a record; `set-cookie` values become an array. */
export function recordOf(headers: Headers): HeaderRecord {
  if (headers instanceof RecordHeaders) return headers.toRecord();
  const record: HeaderRecord = Object.create(null);
  headers.forEach((value, name) => {
    const known = record[name];
    const field = value.replace(SPACE_AT_ENDS, "");
    record[name] = known === undefined ? field : [known as string, field].flat();
  });
  return record;
}

function isPlain(name: string, value: string): boolean {
  return PLAIN_NAME.test(name) && name !== "set-cookie" && PLAIN_VALUE.test(value);
}
