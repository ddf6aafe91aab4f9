import type { Client } from "@connectrpc/connect";
import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { expect } from "vitest";
import {
  type AdminService,
  ImportMode,
  type WatchEventsResponse,
} from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { Role } from "../../gen/usergroup/admin/v1/api_token_pb.ts";
import { ImportResult_Outcome as Outcome } from "../../gen/usergroup/admin/v1/user_group_pb.ts";
import { ApiEnvironmentTag } from "../../gen/usergroup/v1/user_group_pb.ts";
import { newName } from "./admin.ts";

export type Admin = Client<typeof AdminService>;
export type Request = Parameters<Admin["watchEvents"]>[0];

/** Opens a stream of WatchEvents. Ends the stream after the test. */
export function watch(admin: Admin, request: Request) {
  const end = new AbortController();
  closeLater(() => end.abort());
  const responses: WatchEventsResponse[] = [];
  const events = () => responses.flatMap(({ content }) => (content.case === "event" ? [content.value] : []));
  const read = async () => {
    for await (const response of admin.watchEvents(request, { signal: end.signal })) responses.push(response);
  };
  const ended = read();
  let failure: unknown;
  ended.catch((error: unknown) => {
    failure = error;
  });
  return {
    responses,
    events,
    /** Settles when the stream ends. */
    ended,
    end: () => end.abort(),
    /** Waits for the first response. If a change is made after this response, its event arrives on the stream. */
    isOpen: () =>
      waitFor("the stream responds", () => {
        if (failure) throw failure;
        return responses.length > 0;
      }),
    /** Waits for a number of events. @returns the type and subject of each event */
    async seen(count: number) {
      await waitFor(`${count} events`, () => events().length >= count);
      return events().map(({ type, userGroupId, apiTokenId }) => `${type} ${userGroupId || apiTokenId}`.trim());
    },
    cursor: () => responses.at(-1)?.cursor ?? expect.fail("no response"),
  };
}

export async function newEnvironment(admin: Admin) {
  const environment = { name: newName(), tag: ApiEnvironmentTag.TESTING };
  await admin.createEnvironment({ environment });
  return environment;
}

export type Named = Awaited<ReturnType<typeof newEnvironment>>;

export async function importGroups(admin: Admin, environment: Named, ids: readonly string[], name = "x") {
  const userGroups = ids.map((providedId) => ({ providedId, name, mapping: {} }));
  const { results } = await admin.importUserGroups({ environment, userGroups, mode: ImportMode.UPSERT });
  expect(results.filter(({ outcome }) => outcome === Outcome.FAILED)).toEqual([]);
}

export async function adminTokenOf(admin: Admin, environment: Named) {
  const { token, apiToken } = await admin.createApiToken({ environment, displayName: "watcher", role: Role.ADMIN });
  return { token, id: apiToken?.id ?? "" };
}
