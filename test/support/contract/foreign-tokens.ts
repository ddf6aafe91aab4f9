import { describe, expect, it } from "vitest";
import { TokenNotFound } from "../../../src/domain/errors.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import type { ImportedUserGroup } from "../../../src/domain/user-group-admin.ts";
import type { StoreClient } from "../../../src/store/client.ts";
import { tokenDigest } from "../../../src/store/encryption.ts";
import { CLAIM_MS, ForeignTokens } from "../../../src/store/foreign-tokens.ts";
import { foreignTokenKey, groupKey, partitionPrefix } from "../../../src/store/keys.ts";
import { AUDIT, BY, TestUserGroupAdmin } from "../stores.ts";
import { waitFor } from "../wait.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  fails,
  foreignToken,
  imported,
  keysOf,
  newEnvironment,
  newGroup,
  RING,
} from "./context.ts";
import { told } from "./imports.ts";

const HOUR_MS = 3_600_000;

type Environment = ReturnType<typeof newEnvironment>;

/** Where the entry of a token is. */
function entryKey(environment: Environment, token: string): string {
  const digest = tokenDigest(token);
  return foreignTokenKey(partitionPrefix(environment, partitionOf(environment, digest)), digest);
}

/** Tokens of other systems, and the entries that lead to their groups. */
export function foreignTokenContract(context: ContractContext): void {
  describe("a token of another system", () => {
    using(context);
    entries(context);
    claims(context);
  });
}

function using({ store, admin, clients, redis }: ContractContext): void {
  const create = async (id = "a") => {
    const environment = newEnvironment();
    const given = imported(id, { name: "A" });
    await admin().import(environment, [given]);
    return { environment, token: given.token ?? "" };
  };

  it("resolves on every worker, and shows changes made after it was imported", async () => {
    const { environment, token } = await create();
    await store().update(environment, "a", { name: "B" });
    for (const worker of [0, 1]) {
      expect(await store({ worker }).resolve(environment, token)).toMatchObject({ providedId: "a", name: "B" });
    }
    expect((await store().get(environment, "a")).token).toBe(token);
  });

  it("ends when it is rotated, and nothing of it is left", async () => {
    for (const by of [byToken, () => byId("a")]) {
      const { environment, token } = await create();
      const rotated = await store({ worker: 1 }).rotate(environment, by(token));
      expect(rotated).toMatchObject({ providedId: "a", name: "A", token: expect.stringMatching(/^ugt_/) });
      await fails(store().resolve(environment, token), TokenNotFound);
      await fails(store().rotate(environment, byToken(token)), TokenNotFound);
      expect((await store().resolve(environment, rotated.token)).providedId).toBe("a");
      await waitFor("its entry is gone", async () => (await redis().exists(entryKey(environment, token))) === 0);
    }
  });

  it("is rotated once by many at once", async () => {
    const { environment, token } = await create();
    const settled = await Promise.allSettled(
      Array.from({ length: 30 }, (_, worker) => store({ worker }).rotate(environment, byToken(token))),
    );
    const won = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect(won).toHaveLength(1);
    for (const each of settled) if (each.status === "rejected") expect(each.reason).toBeInstanceOf(TokenNotFound);
    expect((await store().get(environment, "a")).token).toBe(won[0]?.token);
  });

  it("has its grace, and no longer", async () => {
    const { environment, token } = await create();
    // Enough for what is tried within it on a busy machine.
    const graceMs = 3000;
    const rotated = await store().rotate(environment, byToken(token, { graceMs }));
    const until = (await store().resolve(environment, token)).tokenExpireTime ?? 0;
    expect(until).toBeLessThanOrEqual(rotated.tokenCreateTime + graceMs);
    expect(until).toBeGreaterThan(rotated.tokenCreateTime + graceMs - 100);
    await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    // No second group gets it meanwhile.
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    await waitFor("the grace ends", () =>
      store()
        .resolve(environment, token)
        .then(
          () => false,
          (error) => error instanceof TokenNotFound,
        ),
    );
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
    expect((await store().resolve(environment, token)).providedId).toBe("b");
    expect(await redis().pttl(entryKey(environment, token))).toBe(-1);
  });

  it("becomes the current one again when it is imported for its group on its grace by hand", async () => {
    const { environment, token } = await create();
    const other = foreignToken();
    await store().rotate(environment, byToken(token, { graceMs: HOUR_MS }));
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    // The claim that led to it is not used again, however long ago it was ended.
    const keys = Object.keys(await contents(redis(), environment));
    for (const refused of keys.filter((key) => key.includes(":refused:"))) await redis().del(refused);
    // What it was given last is another one then, so this is no repetition.
    for (const given of [other, token]) {
      expect(told(await admin().import(environment, [imported("a", { name: "A", token: given })], "upsert"))).toEqual([
        "updated",
      ]);
    }
    expect((await store().resolve(environment, token)).tokenExpireTime).toBeUndefined();
    await fails(store().resolve(environment, other), TokenNotFound);
    await waitFor("the other's entry is gone", async () => (await redis().exists(entryKey(environment, other))) === 0);
    expect(await redis().pttl(entryKey(environment, token))).toBe(-1);
  });

  it("is answered for again when its rotation is repeated under its request id", async () => {
    const { environment, token } = await create();
    const rotation = byToken(token, { requestId: "r" });
    const first = await store().rotate(environment, rotation);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    for (const worker of [0, 1]) expect(await store({ worker }).rotate(environment, rotation)).toEqual(first);
    expect(await redis().pttl(entryKey(environment, token))).toBeGreaterThan(23 * HOUR_MS);
    await fails(store().resolve(environment, token), TokenNotFound);
  });

  it("leaves a hint for a repeated rotation that nobody removes or cuts short", async () => {
    const { environment, token } = await create();
    const rotation = byToken(token, { requestId: "r" });
    const first = await store().rotate(environment, rotation);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(entryKey(environment, token))) > 0);
    // As what fails after it claimed the token does.
    await new ForeignTokens(clients()[0] as StoreClient).release(environment, tokenDigest(token));
    expect(await redis().pttl(entryKey(environment, token))).toBeGreaterThan(23 * HOUR_MS);
    expect(await store().rotate(environment, rotation)).toEqual(first);
  });

  it("is forgotten when its rotation is repeated under its request id, where the first try could not", async () => {
    const { environment, token } = await create();
    const rotation = byToken(token, { requestId: "r" });
    const key = entryKey(environment, token);
    const claim = (await redis().get(key)) ?? "";
    const first = await store().rotate(environment, rotation);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(key)) > 0);
    await redis().set(key, claim);
    expect(await store({ worker: 1 }).rotate(environment, rotation)).toEqual(first);
    await waitFor("it will end by itself again", async () => (await redis().pttl(key)) > 23 * HOUR_MS);
    expect(await store().rotate(environment, rotation)).toEqual(first);
  });

  it("is of one environment", async () => {
    const { environment, token } = await create();
    const other = newEnvironment({ name: environment.name, tag: "Testing" });
    await fails(store().resolve(other, token), TokenNotFound);
    await fails(store().rotate(other, byToken(token)), TokenNotFound);
    expect(told(await admin().import(other, [imported("b", { token })]))).toEqual(["created"]);
    expect((await store().resolve(other, token)).providedId).toBe("b");
    expect((await store().resolve(environment, token)).providedId).toBe("a");
  });
}

function entries({ store, admin, redis }: ContractContext): void {
  it("that an entry alone leads to finds nothing", async () => {
    const environment = newEnvironment();
    const { group } = await store().getOrCreate(environment, newGroup("a"));
    const token = foreignToken();
    for (const id of ["a", "gone"]) {
      await redis().set(entryKey(environment, token), `${"-".repeat(12)}${id}`);
      await fails(store().resolve(environment, token), TokenNotFound);
      await fails(store().rotate(environment, byToken(token)), TokenNotFound);
    }
    expect((await store().get(environment, "a")).token).toBe(group.token);
    // And it hinders no import.
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
  });

  it("that has lost its entry is found again when the import is repeated", async () => {
    const environment = newEnvironment();
    const given = imported("a");
    const token = given.token ?? "";
    await admin().import(environment, [given]);
    for (const wrong of [undefined, `${"x".repeat(12)}b`, `${"-".repeat(12)}a`]) {
      if (wrong === undefined) await redis().del(entryKey(environment, token));
      else await redis().set(entryKey(environment, token), wrong);
      expect(told(await admin().import(environment, [given]))).toEqual(["unchanged"]);
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    }
  });
}

function claims({ store, admin, clients, redis }: ContractContext): void {
  const tokensOf = (worker = 0) => {
    const all = clients();
    return new ForeignTokens(all[worker % all.length] as (typeof all)[number]);
  };
  /** Gives a new group a token under a claim, as an import does when it has claimed. */
  const write = (environment: Environment, id: string, { digest, nonce }: { digest: string; nonce: string }) => {
    const { prefix } = keysOf(environment, id);
    const args = [
      "",
      prefix,
      id,
      digest,
      nonce,
      "1",
      "1",
      "99",
      "name",
      "0",
      "n",
      id,
      "m0",
      "{}",
      "k",
      "k1",
      "f0",
      "x",
    ];
    const audited = AUDIT.ofPartition(environment, partitionOf(environment, id), BY);
    return redis().ugImport(groupKey(prefix, id), String(Date.now() + 60_000), ...args, ...audited);
  };

  it("goes to one of two groups that it is imported for at once", async () => {
    for (let round = 0; round < 8; round++) {
      const environment = newEnvironment();
      const token = foreignToken();
      const ids = ["a", "b", "c", "d"];
      const outcomes = await Promise.all(
        ids.map((id, worker) => admin({ worker }).import(environment, [imported(id, { token })])),
      );
      const results = outcomes.flatMap(told);
      expect(results.filter((each) => each === "created")).toHaveLength(1);
      expect(results.filter((each) => each === "TokenTaken")).toHaveLength(3);
      const winner = ids[results.indexOf("created")];
      expect((await store().resolve(environment, token)).providedId).toBe(winner);
      expect((await admin().list(environment, { after: "", size: 9, prefix: "" })).items).toHaveLength(1);
    }
  });

  it("that was claimed and never given is taken over, and the claim is refused then", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const digest = tokenDigest(token);
    const nonce = await tokensOf().claim(environment, digest, "a");
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
    expect((await write(environment, "a", { digest, nonce }))[0]).toBe("ended");
    expect((await store().resolve(environment, token)).providedId).toBe("b");
    await expect(store().get(environment, "a")).rejects.toThrow();
  });

  it("that was claimed and given meanwhile is not taken over", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const digest = tokenDigest(token);
    const nonce = await tokensOf().claim(environment, digest, "a");
    expect((await write(environment, "a", { digest, nonce }))[0]).toBe("created");
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["TokenTaken"]);
  });

  it("is forgotten only while no group has it, and what claims it meanwhile claims it anew", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const digest = tokenDigest(token);
    const key = entryKey(environment, token);
    const nonce = await tokensOf().claim(environment, digest, "a");
    expect(await tokensOf(1).claim(environment, digest, "a")).toBe(nonce);
    // A release in between ends the claim that an import is about to use.
    await tokensOf(1).release(environment, digest);
    expect(await redis().exists(key)).toBe(0);
    expect((await write(environment, "a", { digest, nonce }))[0]).toBe("ended");
    const next = await tokensOf().claim(environment, digest, "a", nonce);
    expect(next).not.toBe(nonce);
    expect((await write(environment, "a", { digest, nonce: next }))[0]).toBe("created");
    await tokensOf().release(environment, digest);
    expect((await redis().get(key))?.slice(12)).toBe("a");
  });

  it("that was claimed and never given is forgotten once it has found nothing for long", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const digest = tokenDigest(token);
    const key = entryKey(environment, token);
    const nonce = await tokensOf().claim(environment, digest, "a");
    const [patient, impatient] = [tokensOf(), new ForeignTokens(clients()[0] as StoreClient, { strayMs: 0 })];
    for (let i = 0; i < 3; i++) expect(await patient.resolve(environment, digest)).toEqual([]);
    expect(await impatient.resolve(environment, digest)).toEqual([]);
    expect(await redis().get(key)).toBe(`${nonce}a`);
    expect(await impatient.resolve(environment, digest)).toEqual([]);
    // A rotation that nobody heard of may be repeated, and has to find the group until then.
    await waitFor("it will end by itself", async () => (await redis().pttl(key)) > 23 * HOUR_MS);
    expect((await write(environment, "a", { digest, nonce }))[0]).toBe("ended");
    const hint = await redis().get(key);
    for (let i = 0; i < 3; i++) expect(await impatient.resolve(environment, digest)).toEqual([]);
    expect(await redis().get(key)).toBe(hint);
    // And it hinders no import.
    expect(told(await admin().import(environment, [imported("b", { token })]))).toEqual(["created"]);
    for (let i = 0; i < 3; i++) expect((await impatient.resolve(environment, digest))[0]).toBe("current");
    expect(await redis().pttl(key)).toBe(-1);
  });

  it("that was claimed and found nothing for long is not forgotten when it is given at that moment", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const digest = tokenDigest(token);
    const nonce = await tokensOf().claim(environment, digest, "a");
    const impatient = new ForeignTokens(clients()[0] as StoreClient, { strayMs: 0 });
    await impatient.resolve(environment, digest);
    const [, [outcome]] = await Promise.all([
      impatient.resolve(environment, digest),
      write(environment, "a", { digest, nonce }),
    ]);
    if (outcome === "ended") return;
    expect(outcome).toBe("created");
    for (let i = 0; i < 10; i++) expect((await tokensOf().resolve(environment, digest))[0]).toBe("current");
    expect(await redis().pttl(entryKey(environment, token))).toBe(-1);
  });

  /** What an import of a group is told, when something happens once it has first read the group. */
  async function importMeanwhile(environment: Environment, given: ImportedUserGroup, meanwhile: () => Promise<void>) {
    const client = clients()[0] as StoreClient;
    let isFirst = true;
    const late = {
      run: async (...args: Parameters<StoreClient["run"]>) => {
        const answer = await client.run(...args);
        if (args[0] !== "import-read" || !isFirst) return answer;
        isFirst = false;
        await meanwhile();
        return answer;
      },
      prepare: client.prepare.bind(client),
      change: client.change.bind(client),
    } as unknown as StoreClient;
    return told(await new TestUserGroupAdmin(late, RING).import(environment, [given]));
  }

  it("that a group loses while an import mends its entry has none for good", async () => {
    for (const requestId of [undefined, "r"]) {
      const environment = newEnvironment();
      const given = imported("a");
      const token = given.token ?? "";
      const key = entryKey(environment, token);
      await admin().import(environment, [given]);
      const isReleased = async () => (await redis().exists(key)) === 0 || (await redis().pttl(key)) > 0;
      const outcome = await importMeanwhile(environment, given, async () => {
        await store().rotate(environment, byToken(token, { requestId }));
        await waitFor("its entry is gone, or a hint", isReleased);
      });
      expect(outcome).toEqual(["unchanged"]);
      await waitFor("its entry will end by itself", async () => (await redis().pttl(key)) > 23 * HOUR_MS);
    }
  });

  it("that another import gave the group and that ended leaves no claim behind", async () => {
    const environment = newEnvironment();
    const given = imported("a");
    const token = given.token ?? "";
    const key = entryKey(environment, token);
    const outcome = await importMeanwhile(environment, given, async () => {
      await admin().import(environment, [given]);
      await store().rotate(environment, byToken(token));
      await waitFor("its entry is gone", async () => (await redis().exists(key)) === 0);
    });
    expect(outcome).toEqual(["unchanged"]);
    await waitFor("its entry will end by itself", async () => (await redis().pttl(key)) !== -1);
  });

  it("is released for one group alone where that is asked for", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    const digest = tokenDigest(token);
    const nonce = await tokensOf().claim(environment, digest, "a");
    await tokensOf().release(environment, digest, { id: "b" });
    expect(await redis().get(entryKey(environment, token))).toBe(`${nonce}a`);
    await tokensOf().release(environment, digest, { id: "a" });
    expect(await redis().exists(entryKey(environment, token))).toBe(0);
  });

  it("keeps what ended a claim for longer than the claim may be used, and no longer than it must", async () => {
    const environment = newEnvironment();
    const token = foreignToken();
    await tokensOf().claim(environment, tokenDigest(token), "a");
    await tokensOf().release(environment, tokenDigest(token));
    const [refused = ""] = Object.keys(await contents(redis(), environment)).filter((key) => key.includes(":refused:"));
    const left = await redis().pttl(refused);
    // `REDIS_TIMEOUT` is a minute at most.
    expect(left).toBeGreaterThan(CLAIM_MS + 60_000);
    expect(left).toBeLessThanOrEqual(HOUR_MS);
  });
}
