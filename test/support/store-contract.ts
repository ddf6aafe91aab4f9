import { describe } from "vitest";
import { apiTokenContract } from "./contract/api-tokens.ts";
import { auditContract } from "./contract/audit.ts";
import { type ContractOptions, contractContext, type OpenClients } from "./contract/context.ts";
import { deletionContract } from "./contract/deletions.ts";
import { environmentDeletionContract } from "./contract/environment-deletions.ts";
import { environmentContract } from "./contract/environments.ts";
import { etagContract } from "./contract/etags.ts";
import { eventsContract } from "./contract/events.ts";
import { getContract } from "./contract/get.ts";
import { groupListContract } from "./contract/group-lists.ts";
import { importedTokenContract } from "./contract/imported-tokens.ts";
import { importContract } from "./contract/imports.ts";
import { ringContract } from "./contract/keys.ts";
import { lastResolveContract } from "./contract/last-resolves.ts";
import { namesContract } from "./contract/names.ts";
import { requestIdContract } from "./contract/request-ids.ts";
import { revocationContract } from "./contract/revocations.ts";
import { rotateContract } from "./contract/rotate.ts";
import { suspensionContract } from "./contract/suspensions.ts";
import { teamIdContract } from "./contract/team-ids.ts";
import { tokenKeyContract } from "./contract/token-keys.ts";
import { updateContract } from "./contract/update.ts";
import { signingKeyContract, viewerSessionContract } from "./contract/viewer-sessions.ts";
import { webhookContract } from "./contract/webhooks.ts";
import { apiTokenLayout } from "./layout/api-tokens.ts";
import { damagedGroupLayout } from "./layout/damaged-groups.ts";
import { deadlineLayout } from "./layout/deadlines.ts";
import { environmentLayout } from "./layout/environments.ts";
import { eventLayout } from "./layout/events.ts";
import { requestLayout } from "./layout/requests.ts";
import { tamperingLayout } from "./layout/tampering.ts";
import { tokenIndexLayout } from "./layout/token-index.ts";
import { viewerSessionLayout } from "./layout/viewer-sessions.ts";
import { webhookLayout } from "./layout/webhooks.ts";
import { wrongTypeLayout } from "./layout/wrong-types.ts";

/**
 * Defines the tests of the contract that a store must keep, and of the layout of its data in Redis.
 *
 * @param name name of the store
 * @param open connects to an empty store that no other suite uses
 */
export function storeContract(name: string, open: OpenClients, options: ContractOptions = {}): void {
  describe(`the store's contract, ${name}`, () => {
    const context = contractContext(open, options);
    getContract(context);
    updateContract(context);
    rotateContract(context);
    requestIdContract(context);
    namesContract(context);
    ringContract(context);
    tokenKeyContract(context);
    etagContract(context);
    teamIdContract(context);
    groupListContract(context);
    lastResolveContract(context);
    deletionContract(context);
    revocationContract(context);
    suspensionContract(context);
    importContract(context);
    importedTokenContract(context);
    environmentContract(context);
    environmentDeletionContract(context);
    apiTokenContract(context);
    auditContract(context);
    eventsContract(context);
    viewerSessionContract(context);
    signingKeyContract(context);
    webhookContract(context);
    describe("the layout in Redis", () => {
      tamperingLayout(context);
      tokenIndexLayout(context);
      deadlineLayout(context);
      apiTokenLayout(context);
      damagedGroupLayout(context);
      environmentLayout(context);
      eventLayout(context);
      requestLayout(context);
      viewerSessionLayout(context);
      webhookLayout(context);
      if (context.isShared) wrongTypeLayout(context);
    });
  });
}
