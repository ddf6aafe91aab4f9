export { timestampDate } from "@bufbuild/protobuf/wkt";
export { Code, ConnectError } from "@connectrpc/connect";
export { REASONS, type Reason } from "../../../gen/reasons.ts";
export * from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
export * from "../../../gen/usergroup/admin/v1/api_token_pb.ts";
export * from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
export * from "../../../gen/usergroup/admin/v1/environment_pb.ts";
export * from "../../../gen/usergroup/admin/v1/event_pb.ts";
export * from "../../../gen/usergroup/admin/v1/signing_key_pb.ts";
export * from "../../../gen/usergroup/admin/v1/token_key_pb.ts";
export * from "../../../gen/usergroup/admin/v1/user_group_pb.ts";
export * from "../../../gen/usergroup/v1/user_group_pb.ts";
export * from "../../../gen/usergroup/v1/user_group_service_pb.ts";
export * from "../../../gen/usergroup/v1/viewer_service_pb.ts";
export {
  type ClientOptions,
  createUserGroupServiceClient,
  DEFAULT_TIMEOUT_MS,
  type UserGroupServiceClient,
} from "./client.ts";
export {
  type ConnectionFault,
  connectionFaultOf,
  isNeverSent,
  type TlsHints,
  wordsOfFault,
} from "./connection-faults.ts";
export { type WatchOptions, watchEvents } from "./events.ts";
export {
  type FailureDetails,
  failureDetails,
  REQUEST_ID_HEADER,
  reasonOf,
  requestIdOf,
  retryAfterMs,
} from "./failure.ts";
export { pages } from "./pages.ts";
export { withRequestIds } from "./request-id.ts";
export { isRepeatable, type RetryOptions, retrying } from "./retry.ts";
export type { TokenSource } from "./token.ts";
export {
  SessionKeysError,
  type SessionRefusal,
  type VerifiedViewerSession,
  type VerifyOptions,
  ViewerSessionError,
  verifyViewerSession,
} from "./verify.ts";
