import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoRun } from "@user-group-service/testing/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INTERNALS } from "./support/internals.ts";

const certificates = makeCertificates();
const { cert, key } = certificates.server;
afterAll(() => removeCertificates(certificates));

describe("on node", () => {
  for (const { name, runtime, holds } of INTERNALS) {
    if (runtime !== "deno") it(name, async () => expect(await holds({ cert, key })).toBe(true));
  }
});

describe("on deno", () => {
  let looking: RunningProcess;
  beforeAll(() => {
    const script = "packages/transport/test/support/internals.ts";
    looking = startProcess([...denoRun(["--allow-net=127.0.0.1"]), script, JSON.stringify({ cert, key })]);
  });
  afterAll(() => looking.stop());

  for (const { name, runtime } of INTERNALS) {
    if (runtime === "node") continue;
    const said = (output: string) => ["true", "false"].find((doesHold) => output.includes(`${name}: ${doesHold}`));
    it(name, async () => expect(await waitUntilSaid(looking, "the process has reported", said)).toBe("true"));
  }
});
