import { createCipheriv, createHash, hkdfSync, randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import type { Answer } from "../calls.ts";
import { API_TOKEN } from "../stage.ts";

/** The form of the user group tokens in the records: encrypted, or in clear text. */
export type TokenStorage = "encrypted" | "plain";

const ENVIRONMENT = "bench/Customer";
const SECRET = Buffer.alloc(32, 9);

export function peerSettings(storage: TokenStorage): { readonly [name: string]: string } {
  return {
    BENCH_API_TOKEN: API_TOKEN,
    BENCH_ENVIRONMENT: ENVIRONMENT,
    BENCH_RECORDS: prefixOf(storage),
    ...(storage === "encrypted" && { BENCH_KEY: SECRET.toString("base64") }),
  };
}

/**
 * Writes two records of a group for the peers. A peer is a server that the benchmark compares with the service. One
 * record contains the token in clear text, and the other record contains the encrypted token. The records have the same
 * fields as the records of the service, and a similar size. The encryption is AES-256-GCM with a key of the
 * environment. The additional data is the environment and the digest of the token.
 *
 * @param group the group as Connect JSON, from an answer of the service
 */
export async function writePeerRecords(redisUrl: string, group: Answer): Promise<void> {
  const token = String(group["token"]);
  const tokenDigest = createHash("sha256").update(token).digest("base64url");
  const msOf = (time: unknown) => Date.parse(String(time));
  const record = {
    provided_id: String(group["providedId"]),
    team_id: String(group["teamId"]),
    name: String(group["name"]),
    mapping: JSON.stringify(group["mapping"]),
    properties: JSON.stringify(group["properties"]),
    token_digest: tokenDigest,
    etag: String(group["etag"]),
    create_time: msOf(group["createTime"]),
    update_time: msOf(group["updateTime"]),
    token_create_time: msOf(group["tokenCreateTime"]),
  };
  const redis = new Redis(redisUrl);
  try {
    await redis.hset(prefixOf("plain") + record.provided_id, { ...record, token });
    await redis.hset(prefixOf("encrypted") + record.provided_id, { ...record, token: encrypt(token, tokenDigest) });
  } finally {
    redis.disconnect();
  }
}

function encrypt(token: string, digest: string): string {
  const key = Buffer.from(hkdfSync("sha256", SECRET, "", ENVIRONMENT, 32));
  const iv = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from(`${ENVIRONMENT}\0${digest}`));
  const parts = [iv, cipher.update(token, "utf8"), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat(parts).toString("base64url");
}

function prefixOf(storage: TokenStorage): string {
  return `bench:${storage}:group:`;
}
