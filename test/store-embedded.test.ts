import { openEmbedded } from "../src/store/connection/embedded/embedded.ts";
import { storeContract } from "./support/store-contract.ts";

storeContract("embedded", async () => [await openEmbedded({ timeoutMs: 60_000 })], { isShared: false });
