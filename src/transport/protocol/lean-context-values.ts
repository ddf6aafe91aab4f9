import type { ContextKey, ContextValues } from "@connectrpc/connect";

/** Connect's context values, with their methods on a prototype instead of made for every call. */
export class LeanContextValues implements ContextValues {
  readonly [id: symbol]: unknown;

  get<T>(key: ContextKey<T>): T {
    return key.id in this ? (this[key.id] as T) : key.defaultValue;
  }

  set<T>(key: ContextKey<T>, value: T): this {
    (this as { [id: symbol]: unknown })[key.id] = value;
    return this;
  }

  delete(key: ContextKey<unknown>): this {
    delete (this as { [id: symbol]: unknown })[key.id];
    return this;
  }
}
