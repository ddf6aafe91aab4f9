import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { makeServerCertificate } from "@user-group-service/testing/certificates";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, inject, it } from "vitest";
import { AdminService } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { adminOf } from "./support/admin.ts";
import { describeWithRedis, newServer, redisUrl } from "./support/opened.ts";
import { metricsOf, metricsUrlOf } from "./support/operations.ts";
import { failureOf } from "./support/rpc.ts";
import { mountSecrets, shownBy } from "./support/secret-files.ts";
import { TOKEN_KEYS, tokenKey } from "./support/server.ts";

const certificates = inject("certificates");
const SETTINGS = ["TOKEN_KEYS_FILE", "API_TOKENS_FILE", "ADMIN_TOKEN_FILE", "TLS_CERT_FILE", "TLS_KEY_FILE"];

describeWithRedis.each(RUNTIMES)("settings in files, on %s", (runtime) => {
  it("secrets and certificates take effect when their files change, but stay the same if the new content is invalid", async () => {
    const [before, after] = [`before-${crypto.randomUUID()}`, `after-${crypto.randomUUID()}`];
    const name = `t${crypto.randomUUID().slice(0, 8)}`;
    const { cert, key } = certificates.server;
    const next = makeServerCertificate(certificates, `next-${runtime}`);
    const texts = { api: `${name}=${before}\n`, admin: `${before}-root\n`, keys: `${TOKEN_KEYS}\n`, cert, key };
    const mounted = mountSecrets(texts);
    const paths = Object.fromEntries(
      SETTINGS.map((setting, i) => [setting, mounted.pathOf(Object.keys(FILES)[i] ?? "")]),
    );
    const server = await newServer({
      runtime,
      redisUrl,
      env: { TOKEN_KEYS: "", API_TOKENS: "", METRICS_PORT: "0", ...paths },
      denoFlags: [`--allow-read=${mounted.folder}`],
    });
    const operations = { url: metricsUrlOf(server) };
    const states = async () => {
      const metrics = await metricsOf(operations);
      return SETTINGS.map((setting) => metrics("ugs_config_last_reload_successful", { setting }));
    };
    const sessionManager = new Http2SessionManager(server.url, {}, { ca: certificates.ca.cert });
    const transport = createGrpcTransport({ baseUrl: server.url, sessionManager });
    const header = (token: string) => ({ headers: { Authorization: `Token ${token}` } });
    const get = (token: string) =>
      createClient(UserGroupService, transport).getUserGroup({ userGroupId: "a" }, header(token));
    const list = (token: string) => createClient(AdminService, transport).listEnvironments({}, header(token));
    const unknown = { code: "Unauthenticated", reason: "API_TOKEN_UNKNOWN" };

    const { userGroup } = await get(before);
    await list(`${before}-root`);
    expect([await states(), await shownBy(server.url, certificates.ca.cert)]).toEqual([[1, 1, 1, 1, 1], "server"]);

    const other = tokenKey("other", 9);
    mounted.swap({
      api: `${name}=${after}\n`,
      admin: `${after}-root\n`,
      keys: `${TOKEN_KEYS}\n${other}\n`,
      cert: next.cert,
      key: next.key,
    });
    await waitFor("all files are used", () => server.log().filter(({ msg }) => msg.endsWith("are used")).length === 4);
    expect(await shownBy(server.url, certificates.ca.cert)).toBe(`next-${runtime}`);
    expect((await get(after)).userGroup?.token).toBe(userGroup?.token);
    await list(`${after}-root`);
    expect(await failureOf(get(before))).toEqual(unknown);
    expect(await failureOf(list(`${before}-root`))).toEqual(unknown);

    const broken = {
      api: `${name}=short`,
      admin: "",
      keys: tokenKey("new", 3),
      cert,
      key: next.key,
    };
    mounted.swap(broken);
    const refused = () => server.log().filter(({ level, msg }) => level === "warn" && msg.endsWith("previous content"));
    await waitFor("all files are rejected", () => refused().length === 4);
    expect(
      refused()
        .map((line) => line["error"])
        .sort(),
    ).toEqual([
      expect.stringMatching(/^ADMIN_TOKEN_FILE .*empty/),
      expect.stringMatching(/^API_TOKENS_FILE entry 1 needs a token of 16/),
      expect.stringMatching(/^TLS_KEY_FILE is not the key of the certificate/),
      expect.stringMatching(/^cannot use Redis: the first key of TOKEN_KEYS, new, is new/),
    ]);
    expect(await states()).toEqual([0, 0, 0, 0, 0]);
    expect(await shownBy(server.url, certificates.ca.cert)).toBe(`next-${runtime}`);
    await get(after);
    await list(`${after}-root`);
    for (const secret of [before, after, other.replace("other:", "")]) expect(server.output()).not.toContain(secret);

    mounted.swap({ api: "none\n", admin: "none\n", keys: `${TOKEN_KEYS}\n${other}\n`, cert: next.cert });
    await waitFor("all files are used again", async () => (await states()).every((state) => state === 1));
    expect(await failureOf(get(after))).toEqual(unknown);
    expect(await failureOf(list(`${after}-root`))).toEqual(unknown);
    sessionManager.abort();
  });
});

describe.each(RUNTIMES)("the embedded store, on %s", (runtime) => {
  it("keeps the development tokens when ADMIN_TOKEN_FILE changes", async () => {
    const [before, after] = ["an-admin-token-before", "an-admin-token-after"];
    const mounted = mountSecrets({ admin: before });
    const server = await newServer({
      runtime,
      env: { API_TOKENS: "", ADMIN_TOKEN_FILE: mounted.pathOf("admin") },
      denoFlags: [`--allow-read=${mounted.folder}`],
    });
    const tokens = server.log().find((line) => "api_tokens" in line)?.["api_tokens"] as object;
    const callers = () => Promise.all(Object.values(tokens).map((token) => adminOf(server.url, token).getCaller({})));
    const roles = [{ role: "manage" }, { role: "manage" }];
    expect(await callers()).toMatchObject(roles);

    mounted.swap({ admin: after });
    await waitFor("the file is used", () => server.log().some(({ msg }) => msg.endsWith("are used")));
    expect(await adminOf(server.url, after).getCaller({})).toMatchObject({ role: "root" });
    expect(await failureOf(adminOf(server.url, before).getCaller({}))).toMatchObject({ reason: "API_TOKEN_UNKNOWN" });
    expect(await callers()).toMatchObject(roles);
  });
});

/** The keys are the names of the files, in the order of `SETTINGS`. */
const FILES = { keys: "", api: "", admin: "", cert: "", key: "" };
