import type { ListAuditEventsRequest } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type AuditFilter, isAuditEventId } from "../../domain/audit.ts";
import { type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import { auditEventMessage } from "./messages.ts";
import { nextPageToken, pageRequest } from "./pages.ts";
import type { AdminParts, AdminRpcs } from "./parts.ts";
import { targetOf } from "./target.ts";
import { timeOf } from "./times.ts";

/** The RPC on the audit trail. */
export function auditEventRpcs({ environments, audit }: AdminParts) {
  return {
    async listAuditEvents(request, { values }) {
      const filter = filterOf(request);
      // Who deleted an environment is of interest when it is gone.
      const find = (name: EnvironmentName) => environments.findFormer(name);
      const environment = await targetOf({ find }, values, request.environment);
      const scope = ["ListAuditEvents", environmentPath(environment), JSON.stringify(filter)];
      const page = pageRequest(request, isAuditEventId, scope);
      const { items, next } = await audit.list(environment, filter, page);
      return { auditEvents: items.map(auditEventMessage), nextPageToken: nextPageToken(next, scope) };
    },
  } satisfies Partial<AdminRpcs>;
}

/** @throws ConnectError InvalidArgument */
function filterOf(request: ListAuditEventsRequest): AuditFilter {
  return {
    userGroupId: request.userGroupId || undefined,
    actorId: request.actorId || undefined,
    method: request.method || undefined,
    from: wholeMs(timeOf("start_time", request.startTime)),
    before: wholeMs(timeOf("end_time", request.endTime)),
  };
}

/** Rounds a time up to whole milliseconds, as the times of events are. */
function wholeMs(time: number | undefined): number | undefined {
  return time === undefined ? undefined : Math.ceil(time);
}
