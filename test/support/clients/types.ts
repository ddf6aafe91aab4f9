import type { JsonObject } from "../../../src/domain/user-group.ts";

/** How a client speaks to the service. */
export type ClientProtocol = "grpc" | "grpc-web" | "connect" | "rest";

/** Header fields of a request by name. */
export type CallHeaders = Readonly<Record<string, string>>;

/** What a group may be given, as in protobuf's JSON. */
export interface GroupInput {
  readonly userGroupId?: string;
  readonly name?: string;
  readonly mapping?: Readonly<Record<string, string>>;
  readonly properties?: JsonObject;
}

/** `updateMask` is a comma list, as in protobuf's JSON. */
export interface UpdateInput extends GroupInput {
  readonly updateMask?: string;
  readonly etag?: string;
}

/** `previousTokenTtl` is a duration as in protobuf's JSON, such as `300s`. */
export interface RotateInput {
  readonly currentToken?: string;
  readonly userGroupId?: string;
  readonly previousTokenTtl?: string;
  readonly requestId?: string;
}

/** A group, as far as the answer's protocol tells of it: what it leaves out is undefined. */
export interface GroupResult {
  readonly teamId: number;
  readonly token: string;
  readonly name: string;
  readonly providedId: string;
  readonly mapping?: Readonly<Record<string, string>>;
  /** null: the group has none. */
  readonly properties?: JsonObject | null;
  /** null: the environment is untagged. */
  readonly tag?: "Customer" | "Testing" | null;
  readonly etag?: string;
  /** ISO 8601. */
  readonly createTime?: string;
  readonly updateTime?: string;
  readonly tokenCreateTime?: string;
}

/** A viewer's group. */
export interface ViewerResult {
  readonly teamId: number;
  readonly name: string;
  readonly providedId: string;
  readonly mapping: Readonly<Record<string, string>>;
  readonly properties: JsonObject | null;
  readonly tag: "Customer" | "Testing" | null;
  /** In milliseconds since 1970; undefined for the current token. */
  readonly expireTime: number | undefined;
}

/** What every answer has beside its message. */
export interface Answer {
  /** The id of the request, as the answer gives it. */
  readonly requestId: string | undefined;
}

/** One way to call the service; every method rejects with a `CallFailure`. */
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
  /** Ends its connections. */
  close(): void;
}

/** What a failed call says, the same over every protocol. */
export interface FailureFields {
  /** As Connect writes it, such as `not_found`. */
  readonly code: string;
  readonly reason: string;
  readonly violations: readonly { readonly field: string; readonly description: string }[];
  readonly message: string;
}

/** A call that the service refused. */
export class CallFailure extends Error {
  readonly fields: FailureFields;
  readonly requestId: string | undefined;
  /** Of REST alone. */
  readonly status: number | undefined;
  /** `WWW-Authenticate`, where the protocol shows it. */
  readonly challenge: string | undefined;
  /** What is known of a change that the store did not acknowledge. */
  readonly outcome: string | undefined;

  constructor(
    fields: FailureFields,
    rest: Pick<CallFailure, "requestId" | "challenge" | "outcome"> & { readonly status?: number },
  ) {
    super(`${fields.code} ${fields.reason}: ${fields.message} ${JSON.stringify(fields.violations)}`);
    this.fields = fields;
    this.requestId = rest.requestId;
    this.status = rest.status;
    this.challenge = rest.challenge;
    this.outcome = rest.outcome;
  }
}

/** The failure of a call that is to fail; throws when it does not, or in another way. */
export async function failureOf(call: Promise<unknown>): Promise<CallFailure> {
  try {
    await call;
  } catch (error) {
    if (error instanceof CallFailure) return error;
    throw error;
  }
  throw new Error("the call succeeded, and should not have");
}
