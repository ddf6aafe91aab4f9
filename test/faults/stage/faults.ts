import type { Fault } from "./fault.ts";
import { clientFaults } from "./faults-of-clients.ts";
import { masterFaults } from "./faults-of-masters.ts";
import { nodeFaults } from "./faults-of-nodes.ts";
import { workerFaults } from "./faults-of-workers.ts";

export const FAULTS: readonly Fault[] = [...masterFaults, ...clientFaults, ...nodeFaults, ...workerFaults];
