import { describeFaultsOn } from "./stage/promises.ts";

describeFaultsOn("a Cluster");
