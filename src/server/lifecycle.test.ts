import { describe, expect, it } from "vitest";
import { Lifecycle } from "./lifecycle.ts";

const hang = () => new Promise<void>(() => {});

describe("the lifecycle", () => {
  it("closes resources one after another, in reverse order of their opening", async () => {
    const lifecycle = new Lifecycle();
    const seen: string[] = [];
    lifecycle.onClose("a", () => seen.push("a"));
    lifecycle.onClose("b", async () => {
      seen.push("b begins");
      await new Promise((resolve) => setTimeout(resolve, 10));
      seen.push("b ends");
    });
    lifecycle.onClose("c", () => seen.push("c"));
    expect(await lifecycle.close(10_000)).toEqual([]);
    expect(seen).toEqual(["c", "b begins", "b ends", "a"]);
  });

  it("closes each resource only once", async () => {
    const lifecycle = new Lifecycle();
    let closed = 0;
    lifecycle.onClose("a", () => closed++);
    await Promise.all([lifecycle.close(10_000), lifecycle.close(10_000)]);
    await lifecycle.close(10_000);
    expect(closed).toBe(1);
  });

  it("sets `isClosing` as soon as `close` is called", () => {
    const lifecycle = new Lifecycle();
    let seen: boolean | undefined;
    lifecycle.onClose("a", () => {
      seen = lifecycle.isClosing;
    });
    expect(lifecycle.isClosing).toBe(false);
    const closing = lifecycle.close(10_000);
    expect(lifecycle.isClosing).toBe(true);
    return closing.then(() => expect(seen).toBe(true));
  });

  it("sets `isClosing` before the delay, and closes the first resource after the delay", async () => {
    const lifecycle = new Lifecycle();
    let isClosed = false;
    lifecycle.onClose("a", () => {
      isClosed = true;
    });
    const closing = lifecycle.close(10_000, { delayMs: 50 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect([lifecycle.isClosing, isClosed]).toEqual([true, false]);
    await closing;
    expect(isClosed).toBe(true);
  });

  it("names the resources that fail to close, and closes the other resources", async () => {
    const reported: unknown[] = [];
    const lifecycle = new Lifecycle((name, error) => reported.push([name, error]));
    const seen: string[] = [];
    lifecycle.onClose("first", () => seen.push("first"));
    lifecycle.onClose("throws", () => {
      throw new Error("no");
    });
    lifecycle.onClose("rejects", () => Promise.reject(new Error("no")));
    const failed = await lifecycle.close(10_000);
    expect(failed).toEqual(["rejects", "throws"]);
    expect(reported).toEqual(failed.map((name) => [name, new Error("no")]));
    expect(seen).toEqual(["first"]);
  });

  it("abandons a hanging resource at the timeout, and still closes the other resources", async () => {
    const lifecycle = new Lifecycle();
    const seen: string[] = [];
    lifecycle.onClose("first", async () => {
      await Promise.resolve();
      seen.push("first");
    });
    lifecycle.onClose("hangs too", hang);
    lifecycle.onClose("hangs", hang);
    expect(await lifecycle.close(20)).toEqual(["hangs", "hangs too"]);
    expect(seen).toEqual(["first"]);
  });

  it("a lifecycle without resources closes without an error", async () =>
    expect(await new Lifecycle().close(0)).toEqual([]));
});
