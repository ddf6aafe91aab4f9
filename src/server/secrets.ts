import type { Config } from "../config/config.ts";

/**
 * The minimum length of a secret that the log redacts, in characters. A shorter secret may occur in ordinary words, and
 * redacting it would damage the log.
 */
const MIN_LENGTH = 8;

export function secretsOf(config: Config): string[] {
  const { apiTokens, adminTokens, tokenKeys, redis } = config;
  const secrets = [
    ...apiTokens.map(({ token }) => token),
    ...tokenKeys.map(({ secret }) => Buffer.from(secret).toString("base64")),
    ...adminTokens,
    redis?.secrets.sentinelPassword,
    ...Object.values(config.otlpHeaders),
    redis?.secrets.password,
  ];
  return secrets.filter((secret) => secret !== undefined && secret.length >= MIN_LENGTH) as string[];
}
