import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/** What a function that returns the API token gets. */
export interface TokenRequest {
  /** The token that the service does not know, if it is for a second try. */
  readonly refused: string | undefined;
  /** Aborted when the call ends, at its deadline or by its caller. */
  readonly signal: AbortSignal;
}

/**
 * An API token, or a function that returns it. The function is called for every call, so it should cache the token.
 * When the service does not know the token, the function is called once more, with that token as `refused`, and the
 * call is repeated if it returns another. A call ends at its deadline even if the function has not returned.
 */
export type TokenSource = string | ((request: TokenRequest) => string | Promise<string>);

/** Sends an API token with every call. @throws TypeError when the token cannot be one */
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

/** What a function returns, unless the call ends before. @throws the reason of the signal */
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
 * The token without the white space that a file may have around it. @throws TypeError, which does not quote it, when it
 * cannot be a token
 */
function checked(given: unknown): string {
  const token = typeof given === "string" ? given.trim() : "";
  if (token === "") throw new TypeError("token must be an API token of the service: it is empty or not set");
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new TypeError("token must be an API token of the service: this one has spaces or control characters within");
  return token;
}
