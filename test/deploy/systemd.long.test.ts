import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { ROOT } from "@user-group-service/testing/process";
import { describe, expect, it } from "vitest";
import { SETTINGS } from "../../src/config/settings.ts";

const analyze = orLeaveOut("systemd-analyze", "the tests of the unit are");
const UNIT = join(ROOT, "deploy/systemd/user-group-service.service");

/** The maximum exposure level that `systemd-analyze security` may report, times 10. */
const EXPOSURE = 13;

describe.skipIf(analyze === undefined)("the systemd unit", () => {
  const run = (...args: string[]) => spawnSync(analyze ?? "", args, { encoding: "utf8" });

  it("the systemd unit is loaded without warnings", () => {
    const { status, stdout, stderr } = run("verify", "--man=no", UNIT);
    // On this machine, Node may be in another folder than the unit expects. So ignore the complaint about Node.
    const complaints = `${stdout}${stderr}`.split("\n").filter((line) => line !== "" && !/not executable/.test(line));
    expect([complaints, status === 0 || /not executable/.test(stderr)]).toEqual([[], true]);
  });

  it("has an exposure level of 1.3", () => {
    const { status, stdout } = run("security", "--offline=true", `--threshold=${EXPOSURE}`, UNIT);
    expect([status, /exposure level .*: (\d+\.\d)/.exec(stdout)?.[1]]).toEqual([0, "1.3"]);
  });

  it("loads the file of each setting as a credential", () => {
    const text = readFileSync(UNIT, "utf8");
    const loaded = [...text.matchAll(/^LoadCredential=([\w-]+):(\S+)$/gm)].map(([, name, path]) => {
      expect(path).toBe(`/etc/user-group-service/secrets/${name}`);
      return name;
    });
    const used = [...text.matchAll(/^Environment=(\w+_FILE)=%d\/(\S+)$/gm)].map(([, setting = "", name]) => {
      expect(Object.keys(SETTINGS)).toContain(setting);
      return name;
    });
    expect(used).toEqual(loaded);
    expect(loaded).toHaveLength(3);
  });
});
