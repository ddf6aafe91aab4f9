import { beforeAll, expect, inject, it } from "vitest";
import { describeWithRedis, suiteCluster, suiteSentinels, suiteServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

describeWithRedis("on one Redis", () => races({ url: inject("redisUrl") ?? "" }));
describeWithRedis("on a Cluster", () => races(suiteCluster()));
describeWithRedis("on a master that Sentinels look after", () => races(suiteSentinels()));

/** Two workers, one on Node and one on Deno, which are asked the same at once. */
function races(redis: { readonly url: string }): void {
  const first = suiteServer(() => ({ runtime: "node", redisUrl: redis.url }));
  const second = suiteServer(() => ({ runtime: "deno", redisUrl: redis.url, like: first }));
  let clients: ReturnType<typeof grpcClients>[] = [];

  beforeAll(() => {
    clients = [grpcClients(first), grpcClients(second)];
  });

  const client = (i: number) => clients[i % clients.length] as ReturnType<typeof grpcClients>;
  const spread = <T>(count: number, call: (each: ReturnType<typeof grpcClients>, i: number) => Promise<T>) =>
    Promise.allSettled(Array.from({ length: count }, (_, i) => call(client(i), i)));

  it("create one group of 200 concurrent Gets of a new id", async () => {
    for (let round = 0; round < 3; round++) {
      const userGroupId = `new-${round}`;
      const outcomes = await spread(200, ({ groups }, i) => groups.getUserGroup({ userGroupId, name: `by ${i}` }));
      const answers = outcomes.map((outcome) => {
        if (outcome.status === "rejected") throw outcome.reason;
        return outcome.value;
      });
      expect(answers.filter(({ newUserGroup }) => newUserGroup)).toHaveLength(1);
      const [first] = answers;
      expect(first?.userGroup?.token).toMatch(/^ugt_/);
      for (const { userGroup } of answers) expect(userGroup).toEqual(first?.userGroup);
    }
  });

  it("let one of 100 concurrent rotations of one token win", async () => {
    for (let round = 0; round < 3; round++) {
      const userGroupId = `rotated-${round}`;
      const { userGroup } = await client(round).groups.getUserGroup({ userGroupId });
      const group = { case: "currentToken", value: userGroup?.token ?? "" } as const;
      const outcomes = await spread(100, ({ groups }) => groups.rotateUserGroupToken({ group }));
      const won = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value.userGroup] : []));
      expect(won).toHaveLength(1);
      for (const outcome of outcomes) {
        if (outcome.status === "fulfilled") continue;
        const failure = await failureOf(Promise.reject(outcome.reason));
        expect(failure).toEqual({ code: "NotFound", reason: "TOKEN_NOT_FOUND" });
      }
      for (const { groups } of clients) {
        expect((await groups.getUserGroup({ userGroupId })).userGroup?.token).toBe(won[0]?.token);
      }
    }
  });

  it("answer concurrent retries of one rotation alike", async () => {
    const { userGroup } = await client(0).groups.getUserGroup({ userGroupId: "retried" });
    const request = { group: { case: "currentToken", value: userGroup?.token ?? "" }, requestId: "retry-1" } as const;
    const outcomes = await spread(50, ({ groups }) => groups.rotateUserGroupToken(request));
    const tokens = outcomes.map((outcome) =>
      outcome.status === "fulfilled" ? outcome.value.userGroup?.token : outcome.reason,
    );
    expect(new Set(tokens).size).toBe(1);
    expect(tokens[0]).toMatch(/^ugt_/);
  });

  it("see each other's rotations and updates at once", async () => {
    let { userGroup } = await client(0).groups.getUserGroup({ userGroupId: "seen" });
    for (let round = 0; round < 20; round++) {
      const [one, other] = [client(round), client(round + 1)];
      const old = userGroup?.token ?? "";
      // The other has just looked at what is about to change.
      expect((await other.viewers.resolveViewer({ token: old })).providedId).toBe("seen");
      ({ userGroup } = await one.groups.rotateUserGroupToken({ group: { case: "currentToken", value: old } }));
      expect(await failureOf(other.viewers.resolveViewer({ token: old }))).toMatchObject({ reason: "TOKEN_NOT_FOUND" });
      await one.groups.updateUserGroup({ userGroupId: "seen", name: `round ${round}` });
      const viewer = await other.viewers.resolveViewer({ token: userGroup?.token ?? "" });
      expect(viewer.name).toBe(`round ${round}`);
    }
  });
}
