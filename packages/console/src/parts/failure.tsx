import { failureOf } from "../session/failures.ts";

/** Shows why something failed, and what to do. @param again repeats it */
export function FailureBox({ error, again }: { readonly error: unknown; readonly again?: (() => void) | undefined }) {
  if (error === undefined) return null;
  const { message, hint, kind, requestId, violations } = failureOf(error);
  return (
    <div class="failure" role="alert">
      <p>
        <strong>{message}</strong>
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
      {hint && <p>{hint}</p>}
      {(kind || requestId) && (
        <p class="small">
          {kind}
          {kind && requestId && "; "}
          {requestId && (
            <>
              request id <code>{requestId}</code>, by which the log of the service has it
            </>
          )}
        </p>
      )}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
