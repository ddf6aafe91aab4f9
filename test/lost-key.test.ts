import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { TOKEN_KEYS_KEY } from "../src/store/keys.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { restCalls } from "./support/rest-calls.ts";
import { tokenKey } from "./support/server.ts";

describeWithRedis("a server whose TOKEN_KEYS lacks the key of a group", () => {
  it("rejects changes of the group over REST before it writes, and rotates its token by id", async () => {
    const redis = await newRedis();
    const before = await newServer({ redisUrl: redis.url, env: { TOKEN_KEYS: tokenKey("lost", 1) } });
    const { id, user_group } = await restCalls(before).created();
    // What an operator does after losing a key.
    await newOperator(redis).hdel(TOKEN_KEYS_KEY, "lost");
    const env = { TOKEN_KEYS: tokenKey("next", 2) };
    const after = await newServer({ redisUrl: redis.url, env, like: before });

    const refused = await restCalls(after).call("PUT", { user_group_id: id, name: "New" });
    expect(refused.status).toBe(500);
    expect(refused.json()).toMatchObject({ error: { reason: "RECORD_UNREADABLE", outcome: "not_made" } });
    const logged = await waitFor("the log names the key", () => after.log().find(({ level }) => level === "error"));
    expect(logged).toMatchObject({ user_group_id: id, cause: expect.stringContaining('"lost"') });
    expect((await restCalls(before).ok(restCalls(before).call("GET", { user_group_id: id }))).user_group).toEqual(
      user_group,
    );

    const rotated = await restCalls(after).ok(restCalls(after).call("POST", { user_group_id: id }));
    expect(rotated.user_group).toMatchObject({ name: id, team_id: user_group["team_id"] });
    expect((await restCalls(after).call("PUT", { user_group_id: id, name: "New" })).status).toBe(200);
  });
});
