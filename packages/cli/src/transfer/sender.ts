import type { Client } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import { failureDetails, reasonOf } from "@user-group-service/client";
import { BadRequestSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import type { AdminService, ImportUserGroupsRequest } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import {
  type ImportedUserGroup,
  ImportResult_Outcome as Outcome,
} from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { EXIT, Failure } from "../failures.ts";
import { Patience, type PatienceOptions } from "./patience.ts";

/** The outcome of a group. */
export type Fate = "created" | "updated" | "unchanged" | "tokenNewer" | "rejected";

export interface GroupResult {
  readonly fate: Fate;
  /** The fields that the import changes. */
  readonly changedFields: readonly string[];
  /** The reason of a rejection. */
  readonly reason?: string;
}

/** The fields of the requests, without the groups. */
export type ImportSettings = Omit<Partial<ImportUserGroupsRequest>, "$typeName" | "userGroups">;

/** The timeout of a request, in milliseconds. After a timeout, each half of its groups is sent alone. */
const TIMEOUT_MS = 120_000;

const FATES: { readonly [outcome in Outcome]?: Fate } = {
  [Outcome.CREATED]: "created",
  [Outcome.UPDATED]: "updated",
  [Outcome.UNCHANGED]: "unchanged",
  [Outcome.TOKEN_NEWER]: "tokenNewer",
};

/** Codes of failed groups that a retry may import. */
const REPEATED: ReadonlySet<number> = new Set([Code.Unavailable, Code.DeadlineExceeded, Code.Aborted]);

/** Sends groups until each is imported or rejected. */
export class GroupSender {
  readonly #admin: Client<typeof AdminService>;
  readonly #settings: ImportSettings;
  readonly #options: PatienceOptions;

  constructor(admin: Client<typeof AdminService>, settings: ImportSettings, options: PatienceOptions) {
    this.#admin = admin;
    this.#settings = settings;
    this.#options = options;
  }

  /**
   * Imports at most 500 groups. It retries temporary failures: importing a group again changes nothing.
   *
   * @returns the results in the order of the groups
   * @throws ConnectError if the service rejects all of them, or is unavailable for too long
   * @throws Failure if a response lacks results
   */
  async send(groups: readonly ImportedUserGroup[]): Promise<GroupResult[]> {
    const results: (GroupResult | undefined)[] = groups.map(() => undefined);
    const patience = new Patience(this.#options);
    for (;;) {
      const left = results.flatMap((result, i) => (result === undefined ? [i] : []));
      if (left.length === 0) return results as GroupResult[];
      const sent = left.map((i) => groups[i] as ImportedUserGroup);
      const decide = (i: number, result: GroupResult) => {
        results[left[i] as number] = result;
      };
      try {
        const again = await this.#try(sent, decide);
        if (again) await patience.waitAfter(again.reason, again.message);
        else patience.reset();
      } catch (error) {
        if (!(error instanceof ConnectError)) throw error;
        if (rejectNamed(error, sent.length, decide)) continue;
        const isTooLarge = reasonOf(error) === "MESSAGE_TOO_LARGE";
        if (isTooLarge && sent.length === 1) {
          decide(0, rejected("MESSAGE_TOO_LARGE", "the group is larger than the largest request"));
        } else if (sent.length === 1 || !(isTooLarge || error.code === Code.DeadlineExceeded)) {
          await patience.wait(error);
        } else {
          const half = Math.ceil(sent.length / 2);
          const halves = [await this.send(sent.slice(0, half)), await this.send(sent.slice(half))];
          for (const [i, result] of halves.flat().entries()) decide(i, result);
        }
      }
    }
  }

  /** Sends groups once. @returns why some must be sent again. Undefined: all have a result */
  async #try(
    userGroups: ImportedUserGroup[],
    decide: (i: number, result: GroupResult) => void,
  ): Promise<{ readonly reason: string; readonly message: string } | undefined> {
    const { signal } = this.#options;
    const request = { ...this.#settings, userGroups };
    const { results } = await this.#admin.importUserGroups(request, { signal, timeoutMs: TIMEOUT_MS });
    if (results.length !== userGroups.length)
      throw new Failure(`the service returned ${results.length} results for ${userGroups.length} groups`, {
        exitCode: EXIT.failed,
        hint: "ask the operator whether the service has another version than this ugs, or a proxy alters its responses",
      });
    let again: { readonly reason: string; readonly message: string } | undefined;
    for (const [i, { outcome, failure, changedFields }] of results.entries()) {
      const fate = FATES[outcome];
      if (fate) decide(i, { fate, changedFields });
      else if (failure && REPEATED.has(failure.code)) again = failure;
      else decide(i, rejected(failure?.reason ?? "UNKNOWN", failure?.message ?? `the outcome is ${outcome}`));
    }
    return again;
  }
}

/** Rejects the groups that the error of a request names. @returns false if it names none */
function rejectNamed(error: ConnectError, count: number, decide: (i: number, result: GroupResult) => void): boolean {
  if (error.code !== Code.InvalidArgument) return false;
  const problems = new Map<number, string[]>();
  for (const { fieldViolations } of error.findDetails(BadRequestSchema)) {
    for (const { field, description } of fieldViolations) {
      const [, index, name = ""] = /^user_groups\[(\d+)\]\.?(.*)$/.exec(field) ?? [];
      if (index === undefined || Number(index) >= count) return false;
      problems.set(Number(index), [...(problems.get(Number(index)) ?? []), `${name}: ${description}`]);
    }
  }
  for (const [i, texts] of problems) decide(i, rejected(failureDetails(error)?.reason ?? "", texts.join("; ")));
  return problems.size > 0;
}

function rejected(reason: string, message: string): GroupResult {
  return { fate: "rejected", changedFields: [], reason: `${reason}: ${message}` };
}
