import { describe, expect, it } from "vitest";
import { DEFAULT_PARTITIONS } from "../../../src/domain/environment.ts";
import { RecordUnreadable } from "../../../src/domain/errors.ts";
import { RedisEnvironments } from "../../../src/store/environments.ts";
import { environmentKey } from "../../../src/store/keys.ts";
import { type ContractContext, fails, newEnvironment } from "./context.ts";

/** `ensureEnvironment` and `ping`. */
export function environmentContract({ clients, redis }: ContractContext): void {
  const ensure = (name: { name: string; tag: "Customer" | undefined }) =>
    Promise.all(clients().map((client) => new RedisEnvironments(client).ensureEnvironment(name)));

  describe("ensureEnvironment", () => {
    it("makes what is missing, and leaves what is there", async () => {
      const { name } = newEnvironment();
      const customer = { name, tag: "Customer" } as const;
      for (let tries = 0; tries < 2; tries++) {
        for (const made of await ensure(customer))
          expect(made).toEqual({ ...customer, partitions: DEFAULT_PARTITIONS });
      }
      await redis().hset(environmentKey(customer), "partitions", "7", "create_time", "1");
      for (const found of await ensure(customer)) expect(found.partitions).toBe(7);
      expect(await redis().hgetall(environmentKey(customer))).toEqual({ partitions: "7", create_time: "1" });
      expect(await redis().exists(environmentKey({ name, tag: undefined }))).toBe(0);
    });

    it.each(["0", "-1", "3845", "1.5", "x", ""])("refuses one that says it has %j partitions", async (partitions) => {
      const name = { name: newEnvironment().name, tag: undefined };
      await redis().hset(environmentKey(name), "partitions", partitions);
      await fails(ensure(name), RecordUnreadable);
    });
  });

  it("answers a ping", async () => {
    for (const client of clients()) await expect(client.ping()).resolves.toBeUndefined();
  });
}
