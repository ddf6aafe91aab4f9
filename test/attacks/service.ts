import {
  type Attack as AttackOn,
  attacksOn,
  type Target as TargetOf,
} from "@user-group-service/testing/attacks/attack";
import { type Service, type ServiceOptions, startService } from "../support/subject.ts";

export type Attack = AttackOn<ServiceOptions, Service>;
export type Target = TargetOf<Service>;

export const describeAttacks = attacksOn(startService);
