import type { ListAuditEventsRequest } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { MAX_API_TOKENS } from "../../domain/api-token.ts";
import type { AuditFilter } from "../../domain/audit.ts";
import { environmentPath } from "../../domain/environment.ts";
import { InvalidPageToken } from "../../domain/errors.ts";
import { callOf } from "../call-context.ts";
import { timeOf } from "../messages.ts";
import { auditEventMessage, environmentMessage } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, nextPageToken, pageRequest, targetName } from "./requests.ts";

export function environmentRpcs({ environments, apiTokens, auditTrail }: AdminDeps) {
  return {
    async createEnvironment({ environment }, { values }) {
      const call = callOf(values);
      const created = await environments.create(targetName(call.caller, environment), call);
      return { environment: environmentMessage(created) };
    },

    async getEnvironment(request, { values }) {
      const environment = await environments.get(targetName(callOf(values).caller, request.environment));
      const [userGroups, { items }] = await Promise.all([
        environments.countUserGroups(environment),
        apiTokens.list(environment, {}, { after: "", size: MAX_API_TOKENS }),
      ]);
      const counts = { userGroupCount: BigInt(userGroups), apiTokenCount: items.length };
      return { environment: environmentMessage(environment), ...counts };
    },

    async deleteEnvironment({ environment, force }, { values }) {
      const call = callOf(values);
      const left = await environments.delete(targetName(call.caller, environment), force, call);
      return { done: left === 0, remainingUserGroups: BigInt(left) };
    },

    async listEnvironments(request) {
      const scope = ["ListEnvironments"];
      const { items, next } = await environments.list(pageRequest(request, scope));
      return { environments: items.map(environmentMessage), nextPageToken: nextPageToken(next, scope) };
    },

    async listAuditEvents(request, { values }) {
      const filter = filterOf(request);
      const { caller } = callOf(values);
      const name = targetName(caller, request.environment);
      const own = caller.environment;
      // Only ADMIN_TOKEN may read the events of deleted environments with this name.
      const all = await environments.findAll(name);
      const shown = own ? all.filter(({ number }) => number === own.number) : all;
      const scope = ["ListAuditEvents", environmentPath(name), JSON.stringify(filter)];
      const page = pageRequest(request, scope);
      // The key in a page token consists of the number of an environment and the id of an event.
      if (page.after !== "" && !/^\d{1,7}\.\d{1,16}$/.test(page.after)) throw new InvalidPageToken();
      const { items, next } = await auditTrail.list(shown, filter, page);
      return { auditEvents: items.map(auditEventMessage), nextPageToken: nextPageToken(next, scope) };
    },
  } satisfies Partial<AdminRpcs>;
}

function filterOf(request: ListAuditEventsRequest): AuditFilter {
  return {
    userGroupId: request.userGroupId || undefined,
    actorId: request.actorId || undefined,
    method: request.method || undefined,
    // Event times are whole milliseconds, so rounding up the bounds does not change the result.
    from: timeOf(request.startTime, Math.ceil),
    before: timeOf(request.endTime, Math.ceil),
  };
}
