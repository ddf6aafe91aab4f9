import { callOf } from "../observed-call.ts";
import type { AdminDeps, AdminRpcs } from "./requests.ts";

/** The RPC on the data in Redis as a whole. */
export function storeDataRpcs({ acceptData, logger }: AdminDeps) {
  return {
    async acceptStoreData(_, { values }) {
      await acceptData();
      const call = callOf(values);
      logger.info({ request_id: call.id, ...call.callerFields() }, "the data in Redis is accepted");
      return {};
    },
  } satisfies Partial<AdminRpcs>;
}
