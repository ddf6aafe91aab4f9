import { failureOf } from "../session/failures.ts";
import { isAskingAgain, session } from "../session/session.ts";

/**
 * Shows an error with advice. If the service has rejected the token of the session, the box offers a new sign-in.
 *
 * @param again repeats the failed request. Set `again` only for a request that reads data
 * @param isOfSignIn whether the request was the sign-in. Default: no
 * @param isRead whether the request only reads data. Default: yes if `again` or `isOfSignIn` is set
 */
export function FailureBox({
  error,
  again,
  isOfSignIn = false,
  isRead = isOfSignIn || again !== undefined,
}: {
  readonly error: unknown;
  readonly again?: (() => void) | undefined;
  readonly isOfSignIn?: boolean;
  readonly isRead?: boolean | undefined;
}) {
  if (error === undefined) return null;
  const { message, hint, doubt, isTokenRefused = false, kind, requestId, violations } = failureOf(error, { isRead });
  const isEnded = isTokenRefused && !isOfSignIn && session.value !== undefined;
  return (
    <div class="failure" role="alert">
      <p>
        <strong>{isEnded ? "The token you signed in with is no longer valid." : message}</strong>
      </p>
      {violations.length > 0 && (
        <ul>
          {violations.map(({ field, description }) => (
            <li key={`${field} ${description}`}>
              <code>{field}</code>: {description}
            </li>
          ))}
        </ul>
      )}
      {isEnded ? (
        <p>
          The token was revoked or has expired, or the service was restarted without this token.{" "}
          {!isRead && "Nothing was changed, and your input is still here. "}
          Sign in with another token.
        </p>
      ) : (
        hint && <p>{hint}</p>
      )}
      {doubt && <p>{doubt}</p>}
      {(kind || requestId) && (
        <p class="small">
          {kind}
          {kind && requestId && "; "}
          {requestId && (
            <>
              request id <code>{requestId}</code> in the log of the service
              {kind ? "" : ", if the call reached the service"}
            </>
          )}
        </p>
      )}
      {isEnded && (
        <button
          type="button"
          onClick={() => {
            isAskingAgain.value = true;
          }}
        >
          Sign in again …
        </button>
      )}
      {again && !isEnded && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
