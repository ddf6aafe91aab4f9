/* The public interface of the connections to Redis. Nothing outside imports any other file of it. */
export { readClock } from "./clock.ts";
export { ClusterNodes, slotOf } from "./cluster.ts";
export { type Answer, type CommandArgs, type CommandName, PLAIN_COMMANDS } from "./commands.ts";
export type { NodeOptions, ScriptedRedis, StoreConnection } from "./connection.ts";
export {
  changedNothing,
  isMoving,
  isNoCluster,
  isNotSent,
  isRefusal,
  KeysMoving,
  NotConfirmed,
  NotSent,
  redirectionOf,
  refusalWordOf,
  StoreMisconfigured,
  textOf,
} from "./errors.ts";
export { type NodeCall, openNode, StoreNode, type StoreNodes, singleNode } from "./nodes.ts";
export { Sentinels } from "./options.ts";
export { wrongScheme } from "./scheme.ts";
export { batchWrites, dropWhenSilent } from "./sockets.ts";
export { nameOf, type RedisSecrets, type RedisTarget, readRedisUrl } from "./url.ts";
