import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { reasonOf } from "@user-group-service/client";
import type { Environment } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { type TokenKey, type TokenKeyUse, TokenKeyUseSchema } from "../../../../gen/usergroup/admin/v1/token_key_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { timeText } from "../../../operator/src/times.ts";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import type { Column } from "../output/table.ts";
import { pagesOf } from "../pages.ts";
import { type Clients, connect, type Session } from "../session.ts";
import { patiently } from "../transfer/patience.ts";
import { duration } from "../transfer/progress.ts";
import { openAdmin, type Target, transferFailure } from "../transfer/target.ts";
import { type DefineCommand, runs } from "./command.ts";

/** How often the progress of a pass is told, in milliseconds. */
const PROGRESS_MS = 10_000;

const PAGE_SIZE = 1000;

/** How many of the groups whose token cannot be decrypted are named, at most. */
const MAX_FAILED = 10;

/** `ugs keys ...` */
export const keysCommands: DefineCommand = (keys, shell) => {
  const generate = keys
    .command("generate")
    .description("make a key for TOKEN_KEYS; asks no service")
    .option("--id <id>", "its id: 1 to 32 letters, digits, '_' or '-'; default: of today");
  runs(generate, shell, async (session, { id = newId() }: { readonly id?: string }) => {
    if (!/^[A-Za-z0-9_-]{1,32}$/.test(id)) throw usageFailure("--id must be 1 to 32 letters, digits, '_' or '-'");
    await session.out.line(`${id}:${randomBytes(32).toString("base64")}`);
  });

  const check = keys.command("check").description("how many user groups need each key; for ADMIN_TOKEN");
  runs(check, shell, async (session) => {
    const { admin } = await connect(session);
    const { tokenKeys } = await admin.listTokenKeys({});
    const { uses } = await pass(session, admin, { validateOnly: true });
    for (const { id } of tokenKeys) if (!uses.has(id)) uses.set(id, 0n);
    const rows = [...uses].map(([tokenKeyId, userGroupCount]) =>
      create(TokenKeyUseSchema, { tokenKeyId, userGroupCount }),
    );
    await session.out.list(TokenKeyUseSchema, columnsOf(tokenKeys), onePage(rows));
    const lacking = [...uses].filter(
      ([id, count]) => count > 0n && !tokenKeys.some((key) => key.id === id && key.held),
    );
    if (lacking.length === 0) return;
    throw new Failure(`TOKEN_KEYS lacks keys that user groups need: ${lacking.map(([id]) => id).join(", ")}`, {
      exitCode: EXIT.conflict,
      hint: "add them behind the others, in every worker; these groups cannot be read without",
    });
  });

  const rotate = keys
    .command("rotate")
    .description(
      "encrypt every token under the first key of TOKEN_KEYS, and say which may be retired; for ADMIN_TOKEN",
    );
  runs(rotate, shell, async (session) => {
    const { admin } = await connect(session);
    const { tokenKeys, readTime } = await admin.listTokenKeys({});
    const current = tokenKeys.find(({ primary }) => primary)?.id ?? "";
    session.out.note(`The first key of TOKEN_KEYS is ${current}.`);
    const { looked, reencrypted, failed } = await pass(session, admin, { validateOnly: false });
    const retired: string[] = [];
    const say = async (text: string) => session.out.isJson || (await session.out.line(text));
    await say(`${looked} user groups were looked at, and ${reencrypted} encrypted under ${current}.`);
    if (failed.length > 0) {
      const more = failed.length > MAX_FAILED ? ` and ${failed.length - MAX_FAILED} more` : "";
      throw new Failure(
        `the tokens of some user groups cannot be decrypted: ${failed.slice(0, MAX_FAILED).join(", ")}${more}`,
        {
          exitCode: EXIT.conflict,
          hint: "ugs keys check tells whether a key is missing; otherwise revoke their tokens, for which they get new ones, and run this again",
        },
      );
    }
    let refusal: unknown;
    for (const { id } of tokenKeys.filter(({ primary, recorded }) => recorded && !primary)) {
      try {
        await admin.retireTokenKey({ tokenKeyId: id, reencryptStartTime: readTime });
        retired.push(id);
        await say(
          `No token needs the key ${id} any longer: take it out of TOKEN_KEYS of every worker. Backups of Redis from before need it.`,
        );
      } catch (error) {
        if (!(error instanceof Failure) || error.detail.reason !== "TOKEN_KEY_IN_USE") throw error;
        refusal = error;
        session.out.note(`The key ${id} may not be retired yet.`);
      }
    }
    if (session.out.isJson) {
      const counts = { userGroupCount: String(looked), reencryptedCount: String(reencrypted) };
      await session.out.line(jsonLine({ ...counts, retiredTokenKeyIds: retired }));
    }
    if (refusal) throw refusal;
  });
};

/** What a pass over all environments found. */
interface Pass {
  /** How many groups had their token under each key when the pass came to them. */
  readonly uses: Map<string, bigint>;
  looked: bigint;
  reencrypted: bigint;
  /** The groups whose token cannot be decrypted, as environment and id. */
  readonly failed: string[];
}

/** Encrypts the tokens of all environments anew. When it is interrupted, the next pass finds less to do. */
async function pass(
  session: Session,
  admin: Clients["admin"],
  { validateOnly }: { readonly validateOnly: boolean },
): Promise<Pass> {
  const { out, shell } = session;
  const target = await openAdmin(session);
  const found: Pass = { uses: new Map(), looked: 0n, reencrypted: 0n, failed: [] };
  const began = performance.now();
  let toldAt = began;
  const onPage = () => {
    const now = performance.now();
    if (now - toldAt < PROGRESS_MS) return;
    toldAt = now;
    const rate = Math.round(Number(found.looked) / ((now - began) / 1000));
    out.note(`${found.looked} user groups were looked at, ${found.reencrypted} encrypted anew (${rate}/s)`);
  };
  const onPause = (pauseMs: number, reason: string) => {
    if (pauseMs >= 1000) out.note(`waiting ${duration(pauseMs / 1000)}: ${reason}`);
  };
  const environments = pagesOf(undefined, async (page) => {
    const { environments: items, nextPageToken } = await admin.listEnvironments(page);
    return { items, nextPageToken };
  });
  for await (const page of environments) {
    // The tokens of an environment that is being deleted are deleted as well.
    for (const environment of page.filter(({ deleteTime }) => !deleteTime)) {
      await passOver(environment, target, { found, validateOnly, onPage, onPause, signal: shell.signal });
    }
  }
  return found;
}

interface PassOptions {
  readonly found: Pass;
  readonly validateOnly: boolean;
  readonly onPage: () => void;
  readonly onPause: (pauseMs: number, reason: string) => void;
  readonly signal: AbortSignal;
}

async function passOver(
  { name, tag }: Environment,
  { admin, connection }: Pick<Target, "admin" | "connection">,
  { found, validateOnly, onPage, onPause, signal }: PassOptions,
): Promise<void> {
  const environment = { name, tag };
  let pageToken = "";
  do {
    const request = { environment, pageSize: PAGE_SIZE, pageToken, validateOnly };
    // A page may be repeated even if the first request was carried out.
    const call = () => admin.reencryptUserGroupTokens(request);
    const page = await patiently({ signal, onPause }, call).catch((error: unknown) => {
      // The environment was deleted meanwhile.
      if (error instanceof ConnectError && reasonOf(error) === "ENVIRONMENT_NOT_FOUND") return undefined;
      throw transferFailure(error, connection, "run the same command again: what is encrypted stays so");
    });
    if (!page) return;
    for (const { tokenKeyId, userGroupCount } of page.tokenKeyUses) {
      found.uses.set(tokenKeyId, (found.uses.get(tokenKeyId) ?? 0n) + userGroupCount);
      found.looked += userGroupCount;
    }
    found.reencrypted += page.reencryptedCount;
    for (const id of page.failedUserGroupIds) found.failed.push(`${formatEnvironmentName(environment)} ${id}`);
    for (const id of page.failedSigningKeyIds)
      found.failed.push(
        `${formatEnvironmentName(environment)} (its signing key ${id}: ugs signing-key rotate --end-sessions makes new ones)`,
      );
    pageToken = page.nextPageToken;
    onPage();
  } while (pageToken !== "");
}

function newId(): string {
  return `k${new Date().toISOString().slice(0, 10).replaceAll("-", "")}-${randomBytes(2).toString("hex")}`;
}

async function* onePage(rows: readonly TokenKeyUse[]): AsyncGenerator<readonly TokenKeyUse[]> {
  yield rows;
}

function columnsOf(keys: readonly TokenKey[]): readonly Column<TokenKeyUse>[] {
  const keyOf = ({ tokenKeyId }: TokenKeyUse) => keys.find(({ id }) => id === tokenKeyId);
  return [
    { name: "KEY", of: ({ tokenKeyId }) => tokenKeyId, isFree: true },
    { name: "GROUPS", of: ({ userGroupCount }) => String(userGroupCount) },
    {
      name: "STATE",
      of: (use) => {
        const key = keyOf(use);
        return key?.primary ? "first: encrypts" : key?.held ? "decrypts" : "missing in TOKEN_KEYS";
      },
    },
    { name: "LAST ENCRYPTED", of: (use) => timeText(keyOf(use)?.lastEncryptTime) ?? "" },
  ];
}
