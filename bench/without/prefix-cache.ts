import { environmentPath } from "../../src/domain/environment.ts";
import { partitionLabel } from "../../src/domain/token.ts";
import type { partitionPrefix as PartitionPrefix } from "../../src/store/keys.ts";

/* The prefix of a partition's keys is put together for every call. */

export const partitionPrefix = (): typeof PartitionPrefix => (environment, partition) =>
  `ug:{${environmentPath(environment)}/${partitionLabel(partition)}}:`;
