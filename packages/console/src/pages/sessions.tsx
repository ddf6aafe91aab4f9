import { useState } from "preact/hooks";
import { SigningKeySchema } from "../../../../gen/usergroup/admin/v1/signing_key_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { useAction, useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeButton, ChangeDialog } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { columnsFor } from "../parts/message.tsx";
import { Page, Section } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import type { Params } from "../routes.ts";
import { useSession } from "../session/session.ts";

/** Revokes viewer sessions of an environment, and shows the signing keys. */
export function SessionsPage({ params }: { readonly params: Params }) {
  return (
    <Page title="Viewer sessions">
      <Ending params={params} />
      <SigningKeys />
    </Page>
  );
}

const UNTIL = "A back end that verifies sessions by itself accepts a revoked session until the session expires.";

function Ending({ params }: { readonly params: Params }) {
  const { admin, environment } = useSession();
  const [group, setGroup] = useTyped(params["group"] ?? "");
  const [viewer, setViewer] = useState("");
  const [isEnding, setEnding] = useState(false);
  const command = { command: "viewer session revoke", options: { viewer }, args: [group || "GROUP"] };
  const ask = async () => {
    if (group === "") throw new InvalidInput("Give the id of the user group.", "User group");
    setEnding(true);
    return undefined;
  };
  const whose = viewer ? `the viewer ${viewer} of ${group}` : group;
  const end = async () => {
    await admin.revokeViewerSessions({ environment, userGroupId: group, viewerId: viewer });
    return `Revoked the viewer sessions of ${whose}. ${UNTIL}`;
  };
  return (
    <Section title="Revoke viewer sessions">
      <p>The user group and its tokens stay as they are. {UNTIL}</p>
      <Form label="Revoke viewer sessions" submit="Revoke them …" isDangerous act={ask}>
        <div class="columns">
          <TextField label="User group" hint="The id of the user group." value={group} onValue={setGroup} />
          <TextField
            label="Viewer"
            hint="The viewer_id of the sessions. If empty, all viewers."
            value={viewer}
            onValue={setViewer}
          />
        </div>
      </Form>
      <CommandLine {...command} />
      {isEnding && (
        <ChangeDialog
          title="Revoke viewer sessions"
          id={viewer || group}
          consequence={`This revokes all viewer sessions of ${whose}. Pages with a revoked session need a new session.`}
          button="Revoke them"
          command={command}
          onConfirm={end}
          onClose={() => setEnding(false)}
        />
      )}
    </Section>
  );
}

function SigningKeys() {
  const { admin, isRoot, environment } = useSession();
  const list = useList("signing keys", "signing key", async (_, signal) => {
    const { signingKeys } = await admin.listSigningKeys({ environment }, { signal });
    return { items: signingKeys, nextPageToken: "" };
  });
  return (
    <Section title="Signing keys">
      <ListTable
        list={list}
        none="There are no keys yet. The service creates the first keys with the first viewer session."
        caption="The keys that sign viewer sessions"
        keyOf={({ id }) => id}
        columns={[
          { name: "Key", isHeading: true, of: ({ id }) => <span class="id">{id}</span> },
          ...columnsFor(SigningKeySchema, ["state", "active_time", "retire_time", "expire_time"]),
        ]}
      />
      <CommandLine command="signing-key list" />
      {isRoot ? (
        <Rotate again={list.again} />
      ) : (
        <p class="note">Only ADMIN_TOKEN can rotate signing keys. The service rotates the keys every 30 days.</p>
      )}
    </Section>
  );
}

function Rotate({ again }: { readonly again: () => void }) {
  const { admin, environment } = useSession();
  const id = environment ? formatEnvironmentName(environment) : "";
  const rotating = useAction(async () => {
    await admin.rotateSigningKey({ environment });
    again();
    return "Rotated the signing keys. The next key starts to sign 15 minutes after its publication. No session is revoked.";
  });
  const end = async () => {
    await admin.rotateSigningKey({ environment, endSessions: true });
    again();
    return `Revoked the viewer sessions of ${id}. A back end that verifies sessions by itself reads the new keys within 10 minutes. Until then, the back end accepts the old sessions.`;
  };
  return (
    <>
      <p>The service rotates the keys every 30 days. If a key has leaked, or cannot be decrypted, replace all keys.</p>
      <FailureBox error={rotating.error} />
      <div class="buttons">
        <button type="button" aria-disabled={rotating.isBusy} onClick={rotating.run}>
          Rotate to the next key
        </button>
        <ChangeButton
          label="Replace all keys, and revoke every session …"
          title="Replace all signing keys"
          id={id}
          consequence={`This revokes all viewer sessions of the environment ${id}. Pages with a revoked session need a new session.`}
          button="Replace them"
          command={{ command: "signing-key rotate", options: { "end-sessions": true } }}
          onConfirm={end}
        />
      </div>
      <CommandLine command="signing-key rotate" />
    </>
  );
}
