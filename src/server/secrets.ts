import type { Config } from "../config/config.ts";
import { readRedisUrl } from "../store/connection/url.ts";

/** The minimum length of a redacted secret, in characters. A shorter secret may be a part of an ordinary word. */
const MIN_LENGTH = 8;

export function secretsOf(config: Config): string[] {
  const { apiTokens, adminTokens, tokenKeys, redisUrl = "", redisPassword, redisSentinelPassword } = config;
  const redis = readRedisUrl(redisUrl, { password: redisPassword });
  const secrets = [
    ...apiTokens.map(({ token }) => token),
    ...tokenKeys.map(({ secret }) => Buffer.from(secret).toString("base64")),
    ...adminTokens,
    redisSentinelPassword,
    ...Object.values(config.otlpHeaders),
    "target" in redis ? redis.target.secrets.password : undefined,
  ];
  return secrets.filter((secret) => secret !== undefined && secret.length >= MIN_LENGTH) as string[];
}
