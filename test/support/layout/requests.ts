import { expect, it } from "vitest";
import { byToken, type ContractContext, contents } from "../contract/context.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

export function requestLayout({ store, redis, withGroup }: ContractContext): void {
  it("a request id is stored for 24 hours, but without the values of the group", async () => {
    const { environment, group } = await withGroup();
    const big = { name: "n".repeat(256), mapping: { s: "d".repeat(1000) }, properties: { p: "x".repeat(60_000) } };
    await store().update(environment, "a", big);
    const rotation = byToken(group.token, { requestId: "r" });
    const first = await store().rotate(environment, rotation);
    expect(first).toMatchObject(big);
    const kept = Object.entries(await contents(redis(), environment)).filter(([key]) => key.includes(":request"));
    expect(kept).toHaveLength(1);
    expect(JSON.stringify(kept).length).toBeLessThan(1000);
    const left = await redis().pttl(kept[0]?.[0] ?? "");
    expect(left).toBeLessThanOrEqual(DAY_MS);
    expect(left).toBeGreaterThan(DAY_MS - 60_000);
    expect(await store().rotate(environment, rotation)).toEqual(first);
  });
}
