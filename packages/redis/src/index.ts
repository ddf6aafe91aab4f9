/* The public interface of the connections to Redis. Nothing outside imports any other file of it. */
export { ClusterNodes, slotOf } from "./cluster.ts";
export {
  type Answer,
  type CommandArgs,
  type CommandName,
  changedNothing,
  isNotSent,
  isRefusal,
  NotConfirmed,
  NotSent,
  PLAIN_COMMANDS,
  StoreMisconfigured,
} from "./commands.ts";
export {
  batchWrites,
  dropWhenSilent,
  type NodeCall,
  type NodeOptions,
  openNode,
  readClock,
  type ScriptedRedis,
  type StoreConnection,
  StoreNode,
  type StoreNodes,
  singleNode,
} from "./nodes.ts";
export { Sentinels } from "./options.ts";
export { nameOf, type RedisSecrets, type RedisTarget, readRedisUrl } from "./url.ts";
