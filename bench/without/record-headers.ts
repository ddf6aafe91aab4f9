import type { HeaderRecord } from "../../packages/transport/src/http-types.ts";
import type { RecordHeaders as Recorded } from "../../packages/transport/src/protocol/headers.ts";

/* Headers of the fetch API, filled from the record. */

export const RecordHeaders = () =>
  class extends Headers {
    constructor(record: HeaderRecord) {
      super();
      for (const name of Object.keys(record)) {
        const value = record[name];
        if (value === undefined || name.startsWith(":")) continue;
        if (Array.isArray(value)) for (const one of value) this.append(name, one);
        else this.append(name, String(value));
      }
    }
  } as unknown as typeof Recorded;
