import { describe } from "vitest";
import { contractContext, type OpenClients } from "./contract/context.ts";
import { environmentContract } from "./contract/environments.ts";
import { getContract } from "./contract/get.ts";
import { ringContract, teamIdContract } from "./contract/keys.ts";
import { namesContract } from "./contract/names.ts";
import { requestIdContract } from "./contract/request-ids.ts";
import { rotateContract } from "./contract/rotate.ts";
import { settlementContract } from "./contract/settlement.ts";
import { tamperingContract } from "./contract/tampering.ts";
import { updateContract } from "./contract/update.ts";
import { wrongTypeContract } from "./contract/wrong-types.ts";

/**
 * Everything that a store must promise, as tests.
 *
 * @param name of the store
 * @param open opens connections to data that nobody else uses
 * @param options `typed: false` when what is beneath the store does not tell types of keys apart, as the embedded one
 */
export function storeContract(name: string, open: OpenClients, { typed = true } = {}): void {
  describe(`the store's contract, ${name}`, () => {
    const context = contractContext(open);
    getContract(context);
    updateContract(context);
    rotateContract(context);
    requestIdContract(context);
    namesContract(context);
    settlementContract(context);
    tamperingContract(context);
    ringContract(context);
    teamIdContract(context);
    environmentContract(context);
    if (typed) wrongTypeContract(context);
  });
}
