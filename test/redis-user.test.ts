import { http1 } from "@user-group-service/testing/http";
import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { requireUsable } from "../src/store/connection/requirements.ts";
import { ADMIN_ENV, adminOf, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer, suiteRedis } from "./support/opened.ts";
import { documentedRights, withRights } from "./support/rights.ts";
import { grpcClients, succeeds } from "./support/rpc.ts";

/** The documented rules that the service does not require. If one of them is missing, the service still starts. */
const OPTIONAL = ["-@all", "&ug:revoked", "+info", "+config|get", "+subscribe", "+publish", "+select"];

describeWithRedis("the ACL rules in docs/operations/redis.md", () => {
  // `store.test.ts` runs the whole store contract with these rules.
  const redis = suiteRedis(["--cluster-enabled", "yes"]);
  const faultOf = async (rights: readonly string[]) => {
    const user = new Redis(await withRights(redis, rights), { enableReadyCheck: false }).on("error", () => {});
    closeLater(() => user.disconnect());
    return requireUsable(user, { isCluster: true, waits: true }).then(
      () => "none",
      ({ message }: Error) => message,
    );
  };

  it("the documented ACL rules suffice, and the check at the start names each required right that is missing", async () => {
    const rights = documentedRights();
    expect(await faultOf(rights)).toBe("none");
    for (const right of rights.filter((each) => !OPTIONAL.includes(each))) {
      const fault = await faultOf(rights.filter((each) => each !== right));
      expect(fault).toMatch(/^the user in REDIS_URL lacks rights /);
      expect(fault.endsWith(`: ACL SETUSER NAME ${right}`)).toBe(true);
    }
    expect(await faultOf(rights.filter((right) => !/xtrim|wait|hset/.test(right)))).toMatch(
      /ACL SETUSER NAME \+wait \+hset \+xtrim$/,
    );
    expect(await faultOf(rights.filter((right) => !OPTIONAL.slice(1).includes(right)))).toBe("none");
  });

  it("the rights are also checked on a replica, because the first address in REDIS_URL may be a replica", async () => {
    const [master, replica] = [await newRedis(), await newRedis()];
    await newOperator(replica).replicaof("127.0.0.1", master.port);
    const options = { isCluster: false, waits: true };
    for (const right of ["", "+wait", "+xtrim"]) {
      const rights = documentedRights().filter((each) => each !== right);
      const user = new Redis(await withRights(replica, rights)).on("error", () => {});
      closeLater(() => user.disconnect());
      const checked = requireUsable(user, options);
      if (right === "") await checked;
      else await expect(checked).rejects.toThrow(`ACL SETUSER NAME ${right}`);
    }
  });

  it("the documented ACL rules suffice for a server, and cause no warnings", async () => {
    const own = await newRedis(["--appendonly", "yes"]);
    const server = await newServer({ redisUrl: await withRights(own, documentedRights()), env: ADMIN_ENV });
    const { groups, viewers } = grpcClients(server);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
    expect((await viewers.resolveViewer({ token: userGroup?.token ?? "" })).providedId).toBe("a");
    const admin = adminOf(server.url, (await issueToken(server, "admin")).token);
    expect((await admin.listUserGroups({})).userGroups.length).toBe(1);
    expect(server.log().filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
  });

  it.each(["&ug:revoked", "+subscribe", "+publish"])(
    "a missing ACL rule %s delays changes of signing keys on other workers by at most API_TOKEN_CACHE, and causes a warning",
    async (right) => {
      const own = await newRedis(["--appendonly", "yes"]);
      const rights = documentedRights().filter((each) => each !== right);
      const options = {
        redisUrl: await withRights(own, rights),
        env: { ...ADMIN_ENV, API_TOKEN_CACHE: "1s", PUBLIC_URL: "https://groups.example.com" },
      };
      const one = await newServer(options);
      const other = await newServer({ ...options, like: one });
      for (const server of [one, other]) {
        const warning = await waitFor("the server logs the warning", () =>
          server.log().find(({ msg }) => msg.includes("ug:revoked")),
        );
        expect(warning).toMatchObject({
          level: "warn",
          msg: expect.stringMatching(
            /API_TOKEN_CACHE has passed.*replaced signing keys.*ACL SETUSER NAME &ug:revoked \+subscribe \+publish$/,
          ),
        });
      }
      await grpcClients(one).groups.getUserGroup({ userGroupId: "a" });
      const group = { case: "userGroupId", value: "a" } as const;
      const { session } = await grpcClients(other).viewers.createViewerSession({ group, audience: "page" });
      const resolve = () => succeeds(grpcClients(other).viewers.resolveViewer({ token: session }));
      const published = async () =>
        (await http1(other.url, `/e/${one.environment}/Customer/.well-known/jwks.json`)).body.toString();
      const before = await published();
      expect(await resolve()).toBe(true);
      await adminOf(one.url).rotateSigningKey({ environment: customerOf(one), endSessions: true });
      // The other worker caches the keys for at most the time in API_TOKEN_CACHE. Without this limit, the worker would
      // read the new keys only after 45 seconds.
      await waitFor("the session is revoked", async () => !(await resolve()), 20_000);
      await waitFor("the new keys are published", async () => (await published()) !== before, 20_000);
    },
  );
});
