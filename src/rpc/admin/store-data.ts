import { callOf } from "../call-context.ts";
import type { AdminDeps, AdminRpcs } from "./requests.ts";

export function storeDataRpcs({ acceptData, logger }: AdminDeps) {
  return {
    async acceptStoreData(_, { values }) {
      await acceptData();
      logger.info(callOf(values).logFields(), "the data in Redis is accepted");
      return {};
    },
  } satisfies Partial<AdminRpcs>;
}
