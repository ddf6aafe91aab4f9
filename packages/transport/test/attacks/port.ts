import { attacksOn } from "@user-group-service/testing/attacks/attack";
import { startTalk } from "../support/talk-ports.ts";

export const describeAttacks = attacksOn(startTalk);
