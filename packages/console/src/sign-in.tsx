import { useAction } from "./parts/calls.ts";
import { FailureBox } from "./parts/failure.tsx";
import { Form, TextField } from "./parts/field.tsx";
import { Page } from "./parts/page.tsx";
import { endedBecause, signIn, typedToken } from "./session/session.ts";

/** Asks for a token. */
export function SignIn() {
  const signingIn = useAction(async () => {
    await signIn(typedToken.value.trim());
    return "You are signed in.";
  });
  return (
    <Page title="Sign in">
      {endedBecause.value !== "" && <p class="note">{endedBecause.value}</p>}
      <Form label="Sign in" submit="Sign in" isBusy={signingIn.isBusy} onSubmit={() => void signingIn.run()}>
        <TextField
          label="ADMIN_TOKEN, or an API token of role admin"
          hint="It is kept in the memory of this page alone, and forgotten when you sign out, leave or reload the page, or do nothing for 15 minutes."
          type="password"
          value={typedToken.value}
          onValue={(token) => {
            typedToken.value = token;
          }}
        />
        <FailureBox error={signingIn.error} />
      </Form>
    </Page>
  );
}
