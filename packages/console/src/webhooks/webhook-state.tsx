import { WebhookState as State, type Webhook } from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { Badge } from "../parts/badge.tsx";
import { stateText } from "./webhooks.ts";

export function WebhookState({ webhook }: { readonly webhook: Webhook }) {
  const { state, failedAttempts } = webhook;
  const isFailing = state === State.FAILED || state === State.SECRET_UNREADABLE || failedAttempts > 0;
  return <Badge tone={isFailing ? "bad" : state === State.ENABLED ? "good" : "neutral"}>{stateText(webhook)}</Badge>;
}
