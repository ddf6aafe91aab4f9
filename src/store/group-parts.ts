import type { Audit } from "./audit.ts";
import type { TokenCipher } from "./encryption.ts";
import type { ForeignTokens } from "./foreign-tokens.ts";
import type { StoreClient } from "./redis/client.ts";

/** What the stores of user groups are made of. */
export interface UserGroupsParts {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/** What changes of user groups are made with. */
export interface GroupParts extends UserGroupsParts {
  readonly foreignTokens: ForeignTokens;
}
