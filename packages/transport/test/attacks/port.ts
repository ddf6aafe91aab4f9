import { attacksOn } from "@user-group-service/testing/attacks/attack";
import { startTalk } from "../support/talk-ports.ts";

/** Registers attacks on the port of the test service. */
export const describeAttacks = attacksOn(startTalk);
