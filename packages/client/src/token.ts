import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/**
 * An API token, or a function that returns it. The function is called for every call, so it should cache the token.
 * When the service does not know the token, the function is called once more, with that token as `refused`, and the
 * call is repeated if it returns another.
 */
export type TokenSource = string | ((asked: { readonly refused: string | undefined }) => string | Promise<string>);

/** Sends an API token with every call. @throws TypeError when the token cannot be one */
export function presentingToken(source: TokenSource): Interceptor {
  const fixed = typeof source === "function" ? undefined : checked(source);
  const ask = async (refused?: string) => checked(typeof source === "function" ? await source({ refused }) : source);
  return (next) => async (request) => {
    const token = fixed ?? (await ask());
    request.header.set("authorization", `Token ${token}`);
    try {
      return await next(request);
    } catch (error) {
      if (fixed !== undefined || ConnectError.from(error).code !== Code.Unauthenticated) throw error;
      const other = await ask(token);
      if (other === token) throw error;
      request.header.set("authorization", `Token ${other}`);
      return await next(request);
    }
  };
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
