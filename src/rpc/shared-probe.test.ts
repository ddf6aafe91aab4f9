import { expect, it } from "vitest";
import { StoreUnavailable } from "../domain/errors.ts";
import { sharedProbe } from "./shared-probe.ts";

/** A probe that answers when the test says so, and counts. */
function slowProbe() {
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const ping = () => new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }));
  return { ping, waiting };
}

it("asks once for all who ask at the same time", async () => {
  const { ping, waiting } = slowProbe();
  const probe = sharedProbe({ ping }, 0);
  const answers = [probe.ping(), probe.ping(), probe.ping()];
  expect(waiting).toHaveLength(1);
  waiting[0]?.resolve();
  await Promise.all(answers);
});

it("keeps what it was told for a while", async () => {
  for (const end of ["resolve", "reject"] as const) {
    const { ping, waiting } = slowProbe();
    const probe = sharedProbe({ ping }, 60_000);
    const first = probe.ping().catch((error: unknown) => error);
    waiting[0]?.[end](new StoreUnavailable());
    await first;
    expect(await probe.ping().catch((error: unknown) => error)).toBe(await first);
    expect(waiting).toHaveLength(1);
  }
});

it("asks again after that, whatever it was told", async () => {
  const { ping, waiting } = slowProbe();
  const probe = sharedProbe({ ping }, 0);
  const first = probe.ping();
  waiting[0]?.reject(new StoreUnavailable());
  await expect(first).rejects.toThrow(StoreUnavailable);
  const second = probe.ping();
  waiting[1]?.resolve();
  await second;
  const third = probe.ping();
  waiting[2]?.reject(new StoreUnavailable());
  await expect(third).rejects.toThrow(StoreUnavailable);
});
