import { closeLater } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { CLIENTS } from "./support/clients.ts";
import { newId, placeOf } from "./support/matrix.ts";
import { describeWithRedis, suiteCluster, suiteSentinels, suiteServer } from "./support/opened.ts";

function everyClient(redis: { readonly url: string }): void {
  const server = suiteServer(() => ({ redisUrl: redis.url, env: { MIN_REPLICAS_ACK: "1" } }));

  it.each(CLIENTS)("$name creates, reads and changes a group, and rotates its token", async (row) => {
    const { client, reference, as } = placeOf(server, row.open(server.url));
    closeLater(() => client.close());
    closeLater(() => reference.close());
    const userGroupId = newId();
    const { group, newUserGroup } = await client.getUserGroup({ userGroupId, name: "N" }, as.customer);
    expect(newUserGroup).toBe(true);
    const { group: updated } = await client.updateUserGroup({ userGroupId, properties: { tier: "gold" } }, as.customer);
    expect(updated).toMatchObject({ teamId: group.teamId, name: "N", properties: { tier: "gold" } });
    const { group: rotated } = await client.rotateUserGroupToken(
      { currentToken: group.token, requestId: `r${group.teamId}` },
      as.customer,
    );
    expect(rotated.token).not.toBe(group.token);
    const again = await client.getUserGroup({ userGroupId }, as.customer);
    expect(again).toMatchObject({ newUserGroup: false, group: { token: rotated.token, teamId: group.teamId } });
    const { viewer } = await reference.resolveViewer({ token: rotated.token }, as.customer);
    expect(viewer).toMatchObject({ providedId: userGroupId, properties: { tier: "gold" } });
  });
}

describe("a server on Node", () => {
  describeWithRedis("on a Cluster", () => everyClient(suiteCluster()));
  describeWithRedis("on a master with Sentinels", () => everyClient(suiteSentinels()));
});
