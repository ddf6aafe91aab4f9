import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { commandGroup } from "./command.ts";
import { rpcCommand } from "./rpc-command.ts";

export const storeCommands = commandGroup("the data in Redis", {
  accept: rpcCommand(
    AdminService.method.acceptStoreData,
    "accept the current data in Redis after Redis lost data, was restored or was replaced; needs ADMIN_TOKEN",
    {
      confirm: () => ({
        id: "accept",
        consequence:
          "If a lost user group is created again, it gets another token. If Redis was restored from a backup, tokens that were revoked after the backup are valid again",
      }),
      done: () =>
        "The process that received this call accepts the data in Redis. The other processes accept the data within a second.",
    },
  ),
});
