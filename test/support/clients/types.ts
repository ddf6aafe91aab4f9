import type { JsonObject } from "../../../src/domain/user-group.ts";

export type ClientProtocol = "grpc" | "grpc-web" | "connect" | "rest";

export type CallHeaders = Readonly<Record<string, string>>;

export interface GroupInput {
  readonly userGroupId?: string;
  readonly name?: string;
  readonly mapping?: Readonly<Record<string, string>>;
  readonly properties?: JsonObject;
}

/** `updateMask` is a comma-separated list, as in protobuf JSON. */
export interface UpdateInput extends GroupInput {
  readonly updateMask?: string;
  readonly etag?: string;
}

/** `previousTokenTtl` is a duration in protobuf JSON, such as `300s`. */
export interface RotateInput {
  readonly currentToken?: string;
  readonly userGroupId?: string;
  readonly previousTokenTtl?: string;
  readonly requestId?: string;
}

/** A group in a response. A field is undefined if the response format of the protocol does not contain the field. */
export interface GroupResult {
  readonly teamId: number;
  readonly token: string;
  readonly name: string;
  readonly providedId: string;
  readonly mapping?: Readonly<Record<string, string>>;
  /** null if the group has no properties. */
  readonly properties?: JsonObject | null;
  /** null if the environment has no tag. */
  readonly tag?: "Customer" | "Testing" | null;
  readonly etag?: string;
  readonly createTime?: string;
  readonly updateTime?: string;
  readonly tokenCreateTime?: string;
}

export interface ViewerResult {
  readonly teamId: number;
  readonly name: string;
  readonly providedId: string;
  readonly mapping: Readonly<Record<string, string>>;
  readonly properties: JsonObject | null;
  readonly tag: "Customer" | "Testing" | null;
  /**
   * Expiry time of the presented token, in milliseconds since 1970. Undefined if the token is the current token of the
   * group, because this token does not expire.
   */
  readonly expireTime: number | undefined;
}

export interface Answer {
  readonly requestId: string | undefined;
}

/** A client of the service. If a call fails, the method rejects with `CallFailure`. */
export interface ServiceClient {
  getUserGroup(
    input: GroupInput,
    headers: CallHeaders,
  ): Promise<Answer & { readonly group: GroupResult; readonly newUserGroup: boolean }>;
  updateUserGroup(input: UpdateInput, headers: CallHeaders): Promise<Answer & { readonly group: GroupResult }>;
  rotateUserGroupToken(input: RotateInput, headers: CallHeaders): Promise<Answer & { readonly group: GroupResult }>;
  resolveViewer(
    input: { readonly token?: string },
    headers: CallHeaders,
  ): Promise<Answer & { readonly viewer: ViewerResult }>;
  close(): void;
}

/** The part of an error that must be the same in every protocol. */
export interface FailureFields {
  /** Error code, by its name in the Connect protocol, such as `not_found`. */
  readonly code: string;
  readonly reason: string;
  readonly violations: readonly { readonly field: string; readonly description: string }[];
  readonly message: string;
}

export class CallFailure extends Error {
  readonly fields: FailureFields;
  readonly requestId: string | undefined;
  /** HTTP status of a REST response. Undefined for other protocols. */
  readonly status: number | undefined;
  /** Value of the header `WWW-Authenticate`. Undefined if the response does not contain this header. */
  readonly challenge: string | undefined;
  /**
   * Set only if the store did not acknowledge a change. `not_made` means that the change was certainly not made.
   * `unknown` means that the change may have been made.
   */
  readonly outcome: string | undefined;

  constructor(fields: FailureFields, rest: Pick<CallFailure, "requestId" | "challenge" | "outcome" | "status">) {
    super(`${fields.code} ${fields.reason}: ${fields.message} ${JSON.stringify(fields.violations)}`);
    this.fields = fields;
    this.requestId = rest.requestId;
    this.status = rest.status;
    this.challenge = rest.challenge;
    this.outcome = rest.outcome;
  }
}

/**
 * Returns the failure of a call.
 *
 * @throws if the call succeeds, or if it rejects with an error that is not a `CallFailure`
 */
export async function failureOf(call: Promise<unknown>): Promise<CallFailure> {
  try {
    await call;
  } catch (error) {
    if (error instanceof CallFailure) return error;
    throw error;
  }
  throw new Error("the call succeeded, but should have failed");
}
