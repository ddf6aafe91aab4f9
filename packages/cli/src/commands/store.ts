import { confirm } from "../questions.ts";
import { connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { type YesOption, yesOption } from "./options.ts";

/** `ugs store ...` */
export const storeCommands: DefineCommand = (store, shell) => {
  const accept = store
    .command("accept")
    .description("accept what Redis holds, after it came back empty, older, or was replaced; for ADMIN_TOKEN")
    .addOption(yesOption());
  runs(accept, shell, async (session, { yes }: YesOption) => {
    const { admin } = await connect(session);
    const consequence =
      "User groups that Redis lacks are created again with other tokens. Tokens that were revoked after a backup was taken are valid again if Redis holds that backup";
    await confirm(shell, { what: "all data in Redis", id: "accept", consequence }, yes);
    await admin.acceptStoreData({});
    session.out.note("The service uses what Redis holds. Other processes do so within a second.");
  });
};
