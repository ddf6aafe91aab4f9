import { createDecipheriv, createHash, createSecretKey, hkdfSync } from "node:crypto";
import { Redis } from "ioredis";
import type { JsonObject } from "../../src/domain/user-group.ts";

export interface StoredGroup {
  readonly teamId: number;
  readonly token: string;
  readonly name: string;
  readonly providedId: string;
  readonly mapping: { [schemaId: string]: string };
  readonly properties: JsonObject | undefined;
  readonly etag: string;
  readonly createTime: number;
  readonly updateTime: number;
  readonly tokenCreateTime: number;
}

/** The part of a call that is the same in every peer. */
export interface Work {
  readonly host: string;
  readonly port: number;
  /**
   * Authenticates an `Authorization` header and reads a group.
   *
   * @throws if the API token is unknown or the group does not exist
   */
  read(authorization: string | undefined, id: string): Promise<StoredGroup>;
}

/**
 * Opens one Redis connection with auto-pipelining. Prepares the SHA-256 digests of the API tokens, and the decryption.
 * Each read sends one HGETALL. This file shares no code with the service, so that a change of the service does not
 * change the peers. `bench/servers/go/work.go` does the same work in Go.
 */
export async function openWork(): Promise<Work> {
  const redis = new Redis(setting("REDIS_URL"), { enableAutoPipelining: true });
  const apiTokens = new Set([sha256(setting("BENCH_API_TOKEN"))]);
  const prefix = setting("BENCH_RECORDS");
  const readToken = tokenReader(process.env["BENCH_KEY"], setting("BENCH_ENVIRONMENT"));

  return {
    host: setting("HOST"),
    port: Number(setting("PORT")),
    async read(authorization, id) {
      const token = authorization?.startsWith("Token ") ? authorization.slice(6) : "";
      if (!apiTokens.has(sha256(token))) throw new Error("the API token is unknown");
      const record = await redis.hgetall(prefix + id);
      const { token: stored, properties } = record;
      if (stored === undefined) throw new Error("the group does not exist");
      return {
        teamId: Number(record["team_id"]),
        token: readToken(stored, record["token_digest"] as string),
        name: record["name"] as string,
        providedId: record["provided_id"] as string,
        mapping: JSON.parse(record["mapping"] as string),
        properties: properties === undefined ? undefined : JSON.parse(properties),
        etag: record["etag"] as string,
        createTime: Number(record["create_time"]),
        updateTime: Number(record["update_time"]),
        tokenCreateTime: Number(record["token_create_time"]),
      };
    },
  };
}

/**
 * Returns a function that decrypts a stored token. The algorithm is AES-256-GCM. The key is derived from the secret and
 * the environment. The additional data is the environment and the digest of the token.
 *
 * @param secret the secret in base64. Undefined if tokens are stored in clear text
 */
function tokenReader(secret: string | undefined, environment: string): (stored: string, digest: string) => string {
  if (secret === undefined) return (stored) => stored;
  const derived = hkdfSync("sha256", Buffer.from(secret, "base64"), "", environment, 32);
  const key = createSecretKey(Buffer.from(derived));
  return (stored, digest) => {
    const bytes = Buffer.from(stored, "base64url");
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAAD(Buffer.from(`${environment}\0${digest}`));
    decipher.setAuthTag(bytes.subarray(-16));
    return decipher.update(bytes.subarray(12, -16), undefined, "utf8") + decipher.final("utf8");
  };
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: start this server with npm run bench`);
  return value;
}

/** Prints the URL of a server in the same format as the log of the service. */
export function announce(host: string, port: number): void {
  console.log(JSON.stringify({ msg: "listening", url: `http://${host}:${port}` }));
}

export function restAnswer(group: StoredGroup): JsonObject {
  return {
    success: 1,
    new_user_group: false,
    user_group: {
      team_id: group.teamId,
      token: group.token,
      name: group.name,
      provided_id: group.providedId,
      properties: group.properties ?? null,
    },
  };
}

function sha256(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
