import { describe, expect, it } from "vitest";
import type { EnvironmentName } from "../../../src/domain/environment.ts";
import { EnvironmentExists, EnvironmentNotFound } from "../../../src/domain/errors.ts";
import { READY_KINDS } from "../../../src/domain/store.ts";
import { ADD_MEMBER, CREATE_ENVIRONMENT } from "../../../src/store/scripts.ts";
import { listedNumbers } from "../stored-keys.ts";
import { testEnvironments } from "../stores.ts";
import { type ContractContext, failingAt, fails, heldUpAt, newName, oneWins } from "./context.ts";

export function environmentContract({ client, clients, redis }: ContractContext): void {
  const environments = (worker = 0) => testEnvironments(client(worker));
  const ensure = (name: EnvironmentName) =>
    Promise.all(clients().map((each) => testEnvironments(each).ensureEnvironment(name)));
  const named = (tag?: EnvironmentName["tag"]): EnvironmentName => ({ name: newName(), tag });
  const isListed = async (name: EnvironmentName) => (await listedNumbers(redis(), name)).length > 0;

  describe("environments", () => {
    it("environments are created on demand by the first worker, and found by every worker", async () => {
      const name = named("Customer");
      for (let worker = 0; worker < 2; worker++) await fails(environments(worker).find(name), EnvironmentNotFound);
      const [first, ...others] = [...(await ensure(name)), ...(await ensure(name))];
      expect(first).toMatchObject(name);
      for (const other of others) expect(other).toEqual(first);
      for (let worker = 0; worker < 2; worker++) expect(await environments(worker).find(name)).toEqual(first);
      await fails(environments().find({ name: name.name, tag: undefined }), EnvironmentNotFound);
    });

    it("an environment is created by only one of several concurrent calls", async () => {
      const name = named("Customer");
      const create = () => clients().map((each) => testEnvironments(each).create(name));
      const made = await oneWins([...create(), ...create(), ...create(), ...create()], EnvironmentExists);
      expect(made).toMatchObject({ ...name, deleteTime: undefined });
      expect(Math.abs(made.createTime - Date.now())).toBeLessThan(60_000);
      for (const found of await ensure(name)) expect(found.number).toBe(made.number);
    });

    it.each(Object.entries({ ADD_MEMBER, CREATE_ENVIRONMENT }))(
      "an environment is created by the next call if a worker exits before the script %s",
      async (_, script) => {
        const name = named();
        await testEnvironments(failingAt(client(), script.name))
          .create(name)
          .catch(() => {});
        const [found] = await ensure(name);
        expect(found).toMatchObject(name);
        expect((await environments(1).find(name)).number).toBe(found?.number);
        expect(await isListed(name)).toBe(true);
      },
    );

    it("an environment is not created a second time by a delayed worker", async () => {
      const name = named();
      const slow = heldUpAt(client(), CREATE_ENVIRONMENT.name, () => environments(1).create(name));
      await fails(testEnvironments(slow).create(name), EnvironmentExists);
      const again = named();
      const delayed = [0, 1].map((worker) =>
        heldUpAt(client(worker), ADD_MEMBER.name, () => environments(1).ensureEnvironment(again)),
      );
      const creations = delayed.map((each) => testEnvironments(each).create(again));
      await Promise.all(creations.map((creation) => fails(creation, EnvironmentExists)));
      const { number } = await environments().find(again);
      for (const found of await ensure(again)) expect(found.number).toBe(number);
      expect(await listedNumbers(redis(), again)).toEqual([number]);
    });

    it("environments are listed in pages", async () => {
      const { name } = named();
      const names: EnvironmentName[] = [undefined, "Customer" as const, "Testing" as const].map((tag) => ({
        name,
        tag,
      }));
      for (const one of names) await environments().create(one);
      const page = await environments().list({ after: `${name}.`, size: 2 });
      expect(page.items).toMatchObject(names.slice(0, 2));
      const { items } = await environments().list({ after: page.next ?? "", size: 4 });
      expect(items.filter((one) => one.name.startsWith(name))).toMatchObject([names[2]]);
    });
  });

  it.each(READY_KINDS)("a healthy store passes the check of %s", async (kind) => {
    for (const each of clients()) await expect(each.check(kind)).resolves.toBeUndefined();
  });
}
