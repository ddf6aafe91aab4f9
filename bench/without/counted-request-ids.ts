import { randomUUID } from "node:crypto";

/* Every request id is random. */

export const newRequestId = () => (): string => randomUUID();
