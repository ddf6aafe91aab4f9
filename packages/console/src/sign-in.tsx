import { UsersRound } from "lucide-preact";
import { Dialog } from "./parts/dialog.tsx";
import { Form, TextField } from "./parts/field.tsx";
import { Page } from "./parts/page.tsx";
import { endedBecause, isAskingAgain, signIn, typedToken } from "./session/session.ts";

export function SignIn() {
  return (
    <Page
      title="Sign in"
      beside={
        <p class="product">
          <UsersRound aria-hidden />
          User Group Service
        </p>
      }
    >
      {endedBecause.value !== "" && <p class="note">{endedBecause.value}</p>}
      <section class="card">
        <TokenForm />
      </section>
    </Page>
  );
}

/** Shows a dialog for a sign-in during a session, for example after the service has rejected the token. */
export function SignInAgain() {
  const close = () => {
    typedToken.value = "";
    isAskingAgain.value = false;
  };
  return (
    <Dialog title="Sign in again" onClose={close}>
      <p>
        If the new token has the environment and the role of the old token, the page keeps your input. After the
        sign-in, repeat the failed action.
      </p>
      <TokenForm onCancel={close} />
    </Dialog>
  );
}

/** @param onCancel closes the dialog of `SignInAgain`. Undefined on the sign-in page */
function TokenForm({ onCancel }: { readonly onCancel?: () => void }) {
  const again = onCancel ? " again" : "";
  const submit = async () => {
    await signIn(typedToken.value.trim());
    return `You are signed in${again}.`;
  };
  const cancel = onCancel && (
    <button type="button" onClick={onCancel}>
      Cancel
    </button>
  );
  return (
    <Form label={`Sign in${again}`} submit="Sign in" isOfSignIn act={submit} beside={cancel}>
      <TextField
        label="ADMIN_TOKEN, or an API token of role admin"
        hint="The token stays in the memory of this page. The page forgets the token when you sign out, leave or reload the page, or are inactive for 15 minutes."
        type="password"
        value={typedToken.value}
        onValue={(token) => {
          typedToken.value = token;
        }}
      />
    </Form>
  );
}
