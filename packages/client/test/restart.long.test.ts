import { closeLater } from "@user-group-service/testing/opened";
import { repeat } from "@user-group-service/testing/repeat";
import { expect, it } from "vitest";
import { describeWithRedis } from "../../../test/support/opened.ts";
import { CALLS, restartUnder, TIMEOUT_MS } from "../../../test/support/restarts.ts";
import { createUserGroupServiceClient } from "../src/index.ts";

/** How many loops make calls, one at a time each. */
const LOOPS = 24;

describeWithRedis("a service that is started again on its port, under load", () => {
  it(`loses none of ${CALLS} calls that may be repeated`, async () => {
    const failures = await restartUnder(({ url, token }) => {
      const client = createUserGroupServiceClient({ url, token, timeoutMs: TIMEOUT_MS });
      closeLater(() => client.close());
      let answered = 0;
      const loop = (i: number) => {
        const userGroupId = `steady-${i}`;
        const group = { case: "userGroupId", value: userGroupId } as const;
        const calls = [
          () => client.userGroups.getUserGroup({ userGroupId }),
          () => client.userGroups.rotateUserGroupToken({ group }),
          () => client.viewers.createViewerSession({ group, audience: "dashboards" }),
        ];
        let made = 0;
        return async () => {
          await calls[made++ % calls.length]?.();
          answered += 1;
        };
      };
      const calls = repeat(Array.from({ length: LOOPS }, (_, i) => loop(i)));
      return { answered: () => answered, end: () => calls.end() };
    });
    expect(failures).toEqual([]);
  });
});
