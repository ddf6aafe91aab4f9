import { execFile } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { freePort } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { type Run, ugs } from "../packages/cli/test/support/ugs.ts";
import { ADMIN_ENV, ADMIN_TOKEN } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { ask } from "./support/redis.ts";

const run = promisify(execFile);
const ENV = "acme/Customer";

describeWithRedis("restoring yesterday's backup", () => {
  it("the backup brings back revoked credentials, until the commands of after-restore.js have run", async () => {
    const redis = await newRedis();
    // Use a fixed port, so that the server after the restore can use the same port.
    const env = { ...ADMIN_ENV, PORT: String(await freePort()) };
    const first = await newServer({ redisUrl: redis.url, env });
    const as = async (token: string, args: string, input = ""): Promise<Run> => {
      return ugs(args.split(" "), { env: { UGS_URL: first.url, UGS_TOKEN: token }, input });
    };
    const done = async (token: string, args: string) => {
      const { code, stdout, stderr } = await as(token, args);
      expect(code, `${args}: ${stderr}`).toBe(0);
      return stdout.trim();
    };
    const issue = async (name: string) => {
      const made = await as(ADMIN_TOKEN, `token create --env ${ENV} --role manage --name ${name}`);
      return { token: made.stdout.trim(), id: /API token (\S+),/.exec(made.stderr)?.[1] ?? "" };
    };
    await done(ADMIN_TOKEN, `env create ${ENV}`);
    await done(ADMIN_TOKEN, "env create gone");
    const [backEnd, leaked, changed] = [await issue("back-end"), await issue("leaked"), await issue("changed")];
    const groups = ["kept", "rotated", "it's-revoked", "deleted", "recreated"];
    const old = new Map<string, string>();
    for (const id of groups) old.set(id, await done(backEnd.token, `group create ${id}`));

    const backup = join(newFolder(), "backup.rdb");
    await run("redis-cli", ["-p", String(redis.port), "--rdb", backup]);

    const rotated = await done(backEnd.token, "group rotate rotated");
    await done(ADMIN_TOKEN, `group revoke it's-revoked --env ${ENV} --yes`);
    for (const id of ["deleted", "recreated"]) await done(ADMIN_TOKEN, `group delete ${id} --env ${ENV} --yes`);
    await done(backEnd.token, "group create recreated");
    await done(backEnd.token, "group create new");
    await done(ADMIN_TOKEN, `token revoke ${leaked.id} --env ${ENV} --yes`);
    await done(ADMIN_TOKEN, `token rotate ${changed.id} --env ${ENV}`);
    await done(ADMIN_TOKEN, "env delete gone --force --yes");
    const trails = new Map<string, string>();
    for (const env of [ENV, "gone"]) {
      trails.set(env, await done(ADMIN_TOKEN, `audit --env ${env} --since 1h --limit 1000000 --json`));
    }
    await first.stop();
    await redis.kill();

    copyFileSync(backup, join(redis.folder, "dump.rdb"));
    await redis.restart();
    expect(await ask(redis, "CONFIG", "SET", "appendonly", "yes")).toBe("OK");
    const server = await newServer({ redisUrl: redis.url, env });
    expect(server.url).toBe(first.url);
    const resolves = async (token: string) => (await as(backEnd.token, "viewer resolve", token)).code === 0;
    const isKnown = async (token: string) => (await as(token, "whoami")).code === 0;
    const state = async () => ({
      ...Object.fromEntries(
        await Promise.all(groups.map(async (id) => [id, await resolves(old.get(id) ?? "")] as const)),
      ),
      ...{ leaked: await isKnown(leaked.token), changed: await isKnown(changed.token) },
      gone: (await as(ADMIN_TOKEN, "env get gone")).code === 0,
    });
    // The state is the same as at the time of the backup. Data that was written after the backup is lost.
    const revived = { kept: true, rotated: true, "it's-revoked": true, deleted: true, recreated: true };
    expect(await state()).toEqual({ ...revived, leaked: true, changed: true, gone: true });
    expect(await resolves(rotated)).toBe(false);
    expect((await as(ADMIN_TOKEN, `group get new --env ${ENV}`)).code).toBe(3);

    const again = newFolder();
    for (const [env, trail] of trails) {
      const file = join(again, "again.sh");
      const script = execFile(process.execPath, [`${ROOT}/scripts/after-restore.js`, env]);
      let commands = "";
      script.stdout?.on("data", (text) => {
        commands += text;
      });
      script.stdin?.end(trail);
      expect(await new Promise((resolve) => script.once("close", resolve))).toBe(0);
      writeFileSync(file, commands);
      const shell = `ugs() { ${process.execPath} ${ROOT}/dist/ugs.js "$@"; }\n. ${file}\n`;
      const { PATH = "" } = process.env;
      const options = { cwd: again, env: { PATH, HOME: again, UGS_URL: server.url, UGS_TOKEN: ADMIN_TOKEN } };
      await run("sh", ["-e", "-c", shell], options);
      const written = env === ENV ? readFileSync(join(again, `${changed.id}.token`), "utf8") : "";
      // The commands are safe to repeat. If the output file of a token exists, the token is not rotated again.
      await run("sh", ["-e", "-c", shell], options);
      if (env !== ENV) continue;
      expect(readFileSync(join(again, `${changed.id}.token`), "utf8")).toBe(written);
      expect(await isKnown(written.trim())).toBe(true);
    }
    const ended = { rotated: false, "it's-revoked": false, deleted: false, recreated: false };
    expect(await state()).toEqual({ kept: true, ...ended, leaked: false, changed: false, gone: false });
    expect((await as(ADMIN_TOKEN, `group get deleted --env ${ENV}`)).code).toBe(3);
  });
});
