import type { GroupRecord, recordFromFlat as RecordFromFlat } from "../../src/store/record.ts";

/* Records are put together under the names that Redis sent. */

export const recordFromFlat = (): typeof RecordFromFlat => (flat, start) => {
  const record: GroupRecord = {};
  for (let i = start; i + 1 < flat.length; i += 2) record[flat[i] as string] = flat[i + 1];
  return record;
};
