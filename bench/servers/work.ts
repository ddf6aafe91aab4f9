import { createDecipheriv, createHash, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { Redis } from "ioredis";
import { loadConfig } from "../../src/config/config.ts";
import type { Environment } from "../../src/domain/environment.ts";
import { partitionOf } from "../../src/domain/partition.ts";
import type { JsonObject } from "../../src/domain/user-group.ts";
import { environmentKey, groupKey, partitionPrefix } from "../../src/store/keys.ts";

/** A user group as the service stores it, its token readable. */
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

/** The work that every peer does for a call, without anything around it. */
export interface Work {
  /** Where to listen. */
  readonly host: string;
  readonly port: number;
  /**
   * Authenticates an `Authorization` header and reads a group.
   *
   * @throws when the API token is unknown, or there is no such group
   */
  read(authorization: string | undefined, id: string): Promise<StoredGroup>;
}

/**
 * Opens the work from the same settings as the service: the API tokens as
 * SHA-256 digests, one connection with auto-pipelining, and the keys that
 * decrypt stored tokens. It is written out here rather than taken from the
 * service, so that the peers stay what they are when the service changes.
 */
export async function openWork(): Promise<Work> {
  const config = loadConfig(process.env);
  const redis = new Redis(config.redisUrl as string, { enableAutoPipelining: true });
  const environments = new Map<
    string,
    Environment & { readonly path: string; readonly keys: Map<string, KeyObject> }
  >();
  for (const { environment, token } of config.apiTokens) {
    const { partitions, number } = await redis.hgetall(environmentKey(environment));
    const path = `${environment.name}/${environment.tag ?? ""}`;
    const keys = new Map(
      config.tokenKeys.map(({ id, secret }) => {
        const key = hkdfSync("sha256", secret, "", `user-group-token ${path}`, 32);
        return [id, createSecretKey(Buffer.from(key))];
      }),
    );
    environments.set(sha256(token), {
      ...environment,
      partitions: Number(partitions),
      number: Number(number),
      path,
      keys,
    });
  }

  const decrypt = (keys: Map<string, KeyObject>, encrypted: string, binding: string): string => {
    const dot = encrypted.indexOf(".");
    const key = keys.get(encrypted.slice(0, dot));
    if (!key) throw new Error("encrypted under an unknown key");
    const bytes = Buffer.from(encrypted.slice(dot + 1), "base64url");
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAAD(Buffer.from(binding));
    decipher.setAuthTag(bytes.subarray(-16));
    return decipher.update(bytes.subarray(12, -16), undefined, "utf8") + decipher.final("utf8");
  };

  return {
    host: config.host,
    port: config.port,
    async read(authorization, id) {
      const token = authorization?.startsWith("Token ") ? authorization.slice(6) : "";
      const environment = environments.get(sha256(token));
      if (!environment) throw new Error("the API token is unknown");
      const key = groupKey(partitionPrefix(environment, partitionOf(environment, id)), id);
      const record = await redis.hgetall(key);
      const { token: encrypted, properties } = record;
      if (encrypted === undefined) throw new Error("there is no such group");
      return {
        teamId: Number(record["team_id"]),
        token: decrypt(environment.keys, encrypted, `${environment.path}\0${record["token_digest"]}`),
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

/** Says where a server listens, as the service does. */
export function announce(host: string, port: number): void {
  console.log(JSON.stringify({ msg: "listening", url: `http://${host}:${port}` }));
}

/** The REST answer to a GET, as the interface has it. */
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
