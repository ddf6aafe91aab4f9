import {
  type SigningKey,
  SigningKeySchema,
  SigningKey_State as State,
} from "../../../../gen/usergroup/admin/v1/signing_key_pb.ts";
import { formatEnvironmentName } from "../environment-name.ts";
import { usageFailure } from "../failures.ts";
import type { Column } from "../output/table.ts";
import { timeText } from "../output/words.ts";
import { confirm } from "../questions.ts";
import { connect, type Session } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { type EnvironmentOption, environmentOf, environmentOption, type YesOption, yesOption } from "./options.ts";

/** `ugs signing-key ...` */
export const signingKeyCommands: DefineCommand = (signingKey, shell) => {
  const list = signingKey
    .command("list")
    .description("list the keys that sign viewer sessions, and when each takes over")
    .addOption(environmentOption());
  runs(list, shell, async (session, options: EnvironmentOption) => {
    const environment = environmentOf(session, options);
    const { admin } = await connect(session);
    const { signingKeys } = await admin.listSigningKeys({ environment });
    if (signingKeys.length === 0) session.out.note("There are none yet: the first viewer session makes them.");
    await show(session, signingKeys);
  });

  const rotate = signingKey
    .command("rotate")
    .description("have the next key sign viewer sessions, while none ends; for ADMIN_TOKEN")
    .option("--end-sessions", "a key has leaked, or is lost: replace all at once, and end every viewer session")
    .addOption(environmentOption())
    .addOption(yesOption());
  runs(rotate, shell, async (session, options: RotateOptions) => {
    const { endSessions, yes } = options;
    const environment = environmentOf(session, options);
    if (!environment) throw usageFailure("no environment is named", "give --env NAME, NAME/Customer or NAME/Testing");
    const { admin } = await connect(session);
    const id = formatEnvironmentName(environment);
    if (endSessions) {
      const consequence = `This ends all viewer sessions of the environment ${id}: pages that have one need another`;
      await confirm(shell, { what: `the viewer sessions of ${id}`, id, consequence }, yes);
    }
    const { signingKeys } = await admin.rotateSigningKey({ environment, endSessions });
    if (endSessions)
      session.out.note(
        `The viewer sessions of ${id} have ended. Who verifies them without asking the service takes them until it has read the new keys, 10 minutes at most.`,
      );
    await show(session, signingKeys);
  });
};

interface RotateOptions extends EnvironmentOption, YesOption {
  readonly endSessions?: boolean;
}

async function show({ out }: Session, keys: readonly SigningKey[]): Promise<void> {
  await out.list(SigningKeySchema, COLUMNS, onePage(keys));
}

async function* onePage(keys: readonly SigningKey[]): AsyncGenerator<readonly SigningKey[]> {
  yield keys;
}

const STATES: { readonly [state in State]: string } = {
  [State.UNSPECIFIED]: "not told",
  [State.STANDBY]: "standby",
  [State.ACTIVE]: "active",
  [State.RETIRED]: "retired",
};

const COLUMNS: readonly Column<SigningKey>[] = [
  { name: "KEY", of: ({ id }) => id },
  { name: "STATE", of: ({ state }) => STATES[state] },
  { name: "SIGNS FROM", of: ({ activeTime }) => timeText(activeTime) },
  { name: "SIGNS UNTIL", of: ({ retireTime }) => timeText(retireTime) },
  { name: "PUBLISHED UNTIL", of: ({ expireTime, retireTime }) => timeText(expireTime ?? retireTime) },
];
