import type { RunningProcess } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { expect } from "vitest";
import { ADMIN_ENV, adminOf } from "./admin.ts";
import { newRedis, newServer } from "./opened.ts";
import { adminTokenOf, importGroups, newEnvironment } from "./watch.ts";

/**
 * Tests a client program that follows events. The program must print `event TYPE GROUP` for each event, and `cursor`
 * for a response that contains no event. If the service is killed and restarted, the program must continue, and print
 * each event only once. If the API token of the program is revoked, the program must print `error REASON`.
 */
export async function followsEvents(start: (url: string, token: string) => RunningProcess): Promise<void> {
  const redis = await newRedis();
  const newWorker = (port: string) => newServer({ redisUrl: redis.url, env: { ...ADMIN_ENV, PORT: port } });
  const server = await newWorker("0");
  const admin = adminOf(server.url);
  const environment = await newEnvironment(admin);
  const { token, id } = await adminTokenOf(admin, environment);
  const program = start(server.url, token);
  const prints = (text: string) => waitFor(`the program prints ${text}`, () => program.output().includes(`${text}\n`));
  await prints("cursor");
  await importGroups(admin, environment, ["a"]);
  await prints("event user_group.created a");
  server.signal("SIGKILL");
  await server.stop();
  await newWorker(new URL(server.url).port);
  await importGroups(admin, environment, ["b"]);
  await prints("event user_group.created b");
  await admin.revokeApiToken({ environment, apiTokenId: id });
  await prints("error API_TOKEN_UNKNOWN");
  expect(program.output().match(/^event .*$/gm)).toEqual(["event user_group.created a", "event user_group.created b"]);
}
