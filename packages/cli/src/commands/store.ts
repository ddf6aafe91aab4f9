import { confirm } from "../questions.ts";
import { connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { type YesOption, yesOption } from "./options.ts";

/** `ugs store ...` */
export const storeCommands: DefineCommand = (store, shell) => {
  const accept = store
    .command("accept")
    .description("accept the data in Redis after it was lost, restored from a backup, or replaced; needs ADMIN_TOKEN")
    .addOption(yesOption());
  runs(accept, shell, async (session, { yes }: YesOption) => {
    const { admin } = await connect(session);
    const consequence =
      "User groups that Redis has lost are created again with other tokens. If Redis was restored from a backup, tokens that were revoked after the backup are valid again";
    await confirm(shell, { what: "all data in Redis", id: "accept", consequence }, yes);
    await admin.acceptStoreData({});
    session.out.note("The service accepts the data in Redis. Its other processes follow within a second.");
  });
};
