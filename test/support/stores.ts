import type { ApiTokenChange, ApiTokenRotation, NewApiToken, RevocationListener } from "../../src/domain/api-token.ts";
import type { ChangeBy } from "../../src/domain/audit.ts";
import type { Environment, EnvironmentName } from "../../src/domain/environment.ts";
import type {
  ImportedUserGroup,
  ImportMode,
  ImportOptions,
  NewUserGroup,
  Rotation,
  UserGroupChange,
  UserGroupTarget,
} from "../../src/domain/user-group.ts";
import { RedisApiTokens } from "../../src/store/api-tokens/api-tokens.ts";
import { Audit } from "../../src/store/audit/audit.ts";
import { type RingKey, TokenCipher } from "../../src/store/encryption/encryption.ts";
import {
  type EnvironmentDeletionDeps,
  RedisEnvironmentDeletion,
} from "../../src/store/environments/environment-deletion.ts";
import { RedisEnvironments } from "../../src/store/environments/environments.ts";
import { RedisUserGroupAdmin } from "../../src/store/groups/user-group-admin.ts";
import { RedisUserGroups } from "../../src/store/groups/user-groups.ts";
import type { StoreClient } from "../../src/store/redis/client.ts";

/** Who makes the changes of tests that say nothing of it. */
export const BY: ChangeBy = {
  actorId: "test-actor",
  actorName: "a test",
  role: "manage",
  method: "TestMethod",
  requestId: "test-request",
  peer: "192.0.2.1",
};

/** Keeps events for 90 days. */
export const AUDIT = new Audit(90 * 86_400_000);

/** A store of user groups in which a change need not say who makes it. */
export class TestUserGroups extends RedisUserGroups {
  constructor(client: StoreClient, ring: readonly RingKey[], audit = AUDIT) {
    super({ client, cipher: new TokenCipher(ring), audit });
  }

  override getOrCreate(environment: Environment, group: NewUserGroup, by = BY) {
    return super.getOrCreate(environment, group, by);
  }

  override update(environment: Environment, providedId: string, change: UserGroupChange, etag = "", by = BY) {
    return super.update(environment, providedId, change, etag, by);
  }

  override rotate(environment: Environment, rotation: Rotation, by = BY) {
    return super.rotate(environment, rotation, by);
  }
}

/** The administration of user groups, likewise. */
export class TestUserGroupAdmin extends RedisUserGroupAdmin {
  constructor(client: StoreClient, ring: readonly RingKey[], audit = AUDIT) {
    super({ client, cipher: new TokenCipher(ring), audit });
  }

  /** @param target of an id alone, or of a token */
  override delete(environment: Environment, target: string | UserGroupTarget, etag = "", by = BY) {
    const named = typeof target === "string" ? { by: "id" as const, providedId: target } : target;
    return super.delete(environment, named, etag, by);
  }

  override revokeTokens(environment: Environment, providedId: string, requestId = "", by = BY) {
    return super.revokeTokens(environment, providedId, requestId, by);
  }

  override import(
    environment: Environment,
    groups: readonly ImportedUserGroup[],
    how: ImportMode | Partial<ImportOptions> = "create-only",
    by = BY,
  ) {
    const given = typeof how === "string" ? { mode: how } : how;
    // Behind all that was changed before it: times of changes may be some milliseconds ahead of the clock.
    const byDefault = { mode: "create-only", snapshotTime: Date.now() + 1000, replaceNewerTokens: false, graceMs: 0 };
    return super.import(environment, groups, { ...byDefault, ...given } as ImportOptions, by);
  }
}

/** A store of environments, likewise. */
export class TestEnvironments extends RedisEnvironments {
  constructor(client: StoreClient, audit = AUDIT) {
    super(client, audit);
  }

  override ensureEnvironment(name: EnvironmentName & { readonly partitions?: number }, by = BY) {
    return super.ensureEnvironment(name, by);
  }

  override create(name: EnvironmentName & { readonly partitions?: number | undefined }, by = BY) {
    return super.create(name, by);
  }
}

/** A store of API tokens, likewise. */
export class TestApiTokens extends RedisApiTokens {
  constructor(
    client: StoreClient,
    listener: RevocationListener = { revoked: () => {}, missed: () => {} },
    audit = AUDIT,
  ) {
    super({ client, listener, audit });
  }

  override create(environment: Environment, values: NewApiToken, by = BY) {
    return super.create(environment, values, by);
  }

  override update(environment: EnvironmentName, id: string, change: ApiTokenChange, by = BY) {
    return super.update(environment, id, change, by);
  }

  override rotate(environment: Environment, id: string, rotation: Partial<ApiTokenRotation> = {}, by = BY) {
    return super.rotate(environment, id, { graceMs: 0, rotator: "root", notBeyond: undefined, ...rotation }, by);
  }

  override revoke(environment: EnvironmentName, id: string, by = BY, options: { readonly issued?: boolean } = {}) {
    return super.revoke(environment, id, by, options);
  }
}

/** Deletions of environments, likewise. */
export class TestEnvironmentDeletion extends RedisEnvironmentDeletion {
  /** @param given in place of the test stores of the client */
  constructor(client: StoreClient, given: Partial<EnvironmentDeletionDeps> = {}) {
    const [environments, apiTokens] = [new TestEnvironments(client), new TestApiTokens(client)];
    super({ client, audit: AUDIT, environments, apiTokens, ...given });
  }

  override delete(name: EnvironmentName, force: boolean, by = BY) {
    return super.delete(name, force, by);
  }
}
