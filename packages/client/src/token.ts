import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/** Argument of a function that returns the API token. */
export interface TokenRequest {
  /** The token that the service rejected. Undefined on the first attempt. */
  readonly refused: string | undefined;
  /** A signal that is aborted if the call reaches its deadline, or if the caller cancels the call. */
  readonly signal: AbortSignal;
}

/**
 * An API token, or a function that returns the token. The client calls the function for each call, so the function
 * should cache the token. If the service rejects the token, the client calls the function once more with the rejected
 * token as `refused`. If the function returns another token, the client repeats the call. The call ends at its deadline
 * even if the function has not returned.
 */
export type TokenSource = string | ((request: TokenRequest) => string | Promise<string>);

/**
 * Returns an interceptor that sends an API token with each call.
 *
 * @throws TypeError if `source` is a string that cannot be an API token
 */
export function presentingToken(source: TokenSource): Interceptor {
  const fixed = typeof source === "function" ? undefined : checked(source);
  const ask = async (signal: AbortSignal, refused?: string) =>
    checked(typeof source === "function" ? await unlessAborted(signal, source({ refused, signal })) : source);
  return (next) => async (request) => {
    const { signal } = request;
    const token = fixed ?? (await ask(signal));
    request.header.set("authorization", `Token ${token}`);
    try {
      return await next(request);
    } catch (error) {
      if (fixed !== undefined || ConnectError.from(error).code !== Code.Unauthenticated) throw error;
      const other = await ask(signal, token);
      if (other === token) throw error;
      request.header.set("authorization", `Token ${other}`);
      return await next(request);
    }
  };
}

/** Returns the result of a promise. @throws the reason of the signal if it is aborted before the promise settles */
async function unlessAborted<T>(signal: AbortSignal, returned: T | Promise<T>): Promise<T> {
  const settled = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    const end = () => reject(signal.reason);
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { signal: settled.signal });
  });
  return await Promise.race([returned, aborted]).finally(() => settled.abort());
}

/**
 * Removes white space around a token, such as the line break at the end of a file.
 *
 * @throws TypeError if the token cannot be an API token. The message does not contain the token
 */
function checked(given: unknown): string {
  const token = typeof given === "string" ? given.trim() : "";
  if (token === "") throw new TypeError("token must be an API token of the service: it is empty or not set");
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new TypeError("token must be an API token of the service: it contains spaces or control characters");
  return token;
}
