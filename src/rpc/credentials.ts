import type { ApiTokens } from "../auth/api-tokens.ts";
import { isIntactToken } from "../domain/token.ts";
import { isSession } from "../sessions/session.ts";

/** Whether a whole text is a credential, which must not be shown to those who may see ids and names. */
export type IsCredential = (text: string) => boolean;

/** Recognizes tokens of this service, viewer sessions, and the credentials of the settings as they are at the time. */
export function credentialCheck(apiTokens: Pick<ApiTokens, "isOfSettings">): IsCredential {
  return (text) => isIntactToken(text) || isSession(text) || apiTokens.isOfSettings(text);
}
