import type { StoreClient } from "./client.ts";
import { TEAM_ID_KEY } from "./keys.ts";

const BLOCK = 100;

/**
 * Hands out team ids from blocks that are fetched before they are needed, so
 * that creating a group costs no extra round trip. Ids of a block that a worker
 * does not use are lost.
 */
export class TeamIds {
  readonly #client: StoreClient;
  #next = 1;
  #end = 0;
  #spare: Promise<number> | undefined;

  constructor(client: StoreClient) {
    this.#client = client;
  }

  /** Fetches the first block. @throws StoreUnavailable, TooFewReplicas */
  async prepare(): Promise<void> {
    await this.#fetch();
  }

  /** The next id, from 1. @throws StoreUnavailable, TooFewReplicas */
  async next(): Promise<number> {
    while (this.#next > this.#end) {
      const block = this.#fetch();
      const end = await block;
      // Of those who waited for the block, the first takes it up.
      if (this.#spare === block) {
        this.#spare = undefined;
        this.#end = end;
        this.#next = end - BLOCK + 1;
      }
    }
    const id = this.#next++;
    if (this.#end - id === BLOCK / 2) this.#fetch().catch(() => {});
    return id;
  }

  /** The last id of the block after this one. A block that a failover forgot would be handed out again. */
  #fetch(): Promise<number> {
    this.#spare ??= this.#client
      .change("team-id", (redis) => redis.incrby(TEAM_ID_KEY, BLOCK))
      .catch((error: unknown) => {
        this.#spare = undefined;
        throw error;
      });
    return this.#spare;
  }
}
