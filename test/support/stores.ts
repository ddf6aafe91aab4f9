import type { ApiTokenChange, ApiTokenRotation, NewApiToken, RevocationListener } from "../../src/domain/api-token.ts";
import type { ChangeBy } from "../../src/domain/audit.ts";
import type { Environment, EnvironmentName } from "../../src/domain/environment.ts";
import type {
  ImportedUserGroup,
  ImportMode,
  ImportOptions,
  NewSuspension,
  NewUserGroup,
  Rotation,
  UserGroupChange,
  UserGroupTarget,
} from "../../src/domain/user-group.ts";
import { redisApiTokens } from "../../src/store/api-tokens/api-tokens.ts";
import { Audit } from "../../src/store/audit.ts";
import type { StoreClient } from "../../src/store/connection/client.ts";
import { type RingKey, TokenCipher } from "../../src/store/encryption.ts";
import { type EnvironmentDeps, redisEnvironments } from "../../src/store/environments.ts";
import { redisUserGroupAdmin } from "../../src/store/groups/user-group-admin.ts";
import { redisUserGroups } from "../../src/store/groups/user-groups.ts";

export const BY: ChangeBy = {
  actorId: "test-actor",
  actorName: "a test",
  role: "manage",
  method: "TestMethod",
  requestId: "test-request",
  peer: "192.0.2.1",
};

export const AUDIT = new Audit(90 * 86_400_000);

export function testUserGroups(client: StoreClient, ring: readonly RingKey[], audit = AUDIT) {
  const store = redisUserGroups({ client, cipher: new TokenCipher(ring), audit });
  return {
    ...store,
    getOrCreate: (environment: Environment, group: NewUserGroup, by = BY) => store.getOrCreate(environment, group, by),
    update: (environment: Environment, providedId: string, change: UserGroupChange, etag = "", by = BY) =>
      store.update(environment, providedId, change, etag, by),
    rotate: (environment: Environment, rotation: Rotation, by = BY) => store.rotate(environment, rotation, by),
  };
}

export function testUserGroupAdmin(client: StoreClient, ring: readonly RingKey[], audit = AUDIT) {
  const admin = redisUserGroupAdmin({ client, cipher: new TokenCipher(ring), audit });
  return {
    ...admin,

    /** @param target the id of a group, or a target with a token */
    delete(environment: Environment, target: string | UserGroupTarget, etag = "", by = BY) {
      const named = typeof target === "string" ? { by: "id" as const, providedId: target } : target;
      return admin.delete(environment, named, etag, by);
    },

    revokeTokens: (environment: Environment, providedId: string, requestId = "", by = BY, graceMs = 0) =>
      admin.revokeTokens(environment, providedId, { graceMs, requestId }, by),

    suspend: (environment: Environment, providedId: string, given: Partial<NewSuspension> = {}, by = BY) =>
      admin.suspend(environment, providedId, { reason: "", message: "", until: undefined, ...given }, by),

    resume: (environment: Environment, providedId: string, by = BY) => admin.resume(environment, providedId, by),

    import(
      environment: Environment,
      groups: readonly ImportedUserGroup[],
      how: ImportMode | Partial<ImportOptions> = "create-only",
      by = BY,
    ) {
      const given = typeof how === "string" ? { mode: how } : how;
      // The time of a change can be some milliseconds ahead of the clock. The default snapshot time must be later than
      // all changes that the test has made, so it is one second ahead.
      const byDefault = { mode: "create-only", snapshotTime: Date.now() + 1000, replaceNewerTokens: false, graceMs: 0 };
      return admin.import(environment, groups, { ...byDefault, ...given } as ImportOptions, by);
    },
  };
}

export function testEnvironments(client: StoreClient, given: Partial<EnvironmentDeps> = {}) {
  const listener = { environmentDeleted: () => {} };
  const environments = redisEnvironments({ client, audit: AUDIT, listener, ...given });
  return {
    ...environments,
    ensureEnvironment: (name: EnvironmentName, by = BY) => environments.ensureEnvironment(name, by),
    create: (name: EnvironmentName, by = BY) => environments.create(name, by),
    delete: (name: EnvironmentName, force: boolean, by = BY) => environments.delete(name, force, by),
  };
}

export function testApiTokens(
  client: StoreClient,
  listener: Pick<RevocationListener, "revoked"> = { revoked: () => {} },
  audit = AUDIT,
) {
  const tokens = redisApiTokens({ client, listener, audit });
  return {
    ...tokens,
    /** @param values `creator` is the id of the caller. Default: the id of `BY` */
    create: (
      environment: Environment,
      { creator = BY.actorId, ...values }: NewApiToken & { readonly creator?: string },
      by: ChangeBy = { ...BY, actorId: creator },
    ) => tokens.create(environment, values, by),
    update: (environment: Environment, id: string, change: ApiTokenChange, by = BY) =>
      tokens.update(environment, id, change, by),
    /** @param rotation `rotator` is the id of the caller. Default: the id of `BY` */
    rotate: (
      environment: Environment,
      id: string,
      { rotator = BY.actorId, ...rotation }: Partial<ApiTokenRotation> & { readonly rotator?: string } = {},
      by: ChangeBy = { ...BY, actorId: rotator },
    ) => tokens.rotate(environment, id, { graceMs: 0, notBeyond: undefined, ...rotation }, by),
    revoke: (environment: Environment, id: string, by = BY, options: { readonly issued?: boolean } = {}) =>
      tokens.revoke(environment, id, by, options),
  };
}
