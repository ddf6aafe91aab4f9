import { attacksOn } from "@user-group-service/testing/attacks/attack";
import { startTalk } from "../support/talk-ports.ts";

/** Registers attacks against the port of the test service. */
export const describeAttacks = attacksOn(startTalk);
