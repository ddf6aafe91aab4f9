import { type Environment, EnvironmentSchema } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../environment-name.ts";
import type { Column } from "../output/table.ts";
import { timeText } from "../output/words.ts";
import { pagesOf } from "../pages.ts";
import { connect } from "../session.ts";
import { type AddCommands, runs } from "./command.ts";
import { limitOption } from "./options.ts";

/** `ugs env ...` */
export const envCommands: AddCommands = (program, shell) => {
  const env = program.command("env").description("environments: create, list, get, delete; for ADMIN_TOKEN");

  const list = env.command("list").description("list all environments").addOption(limitOption());
  runs(list, shell, async (session, { limit }: { readonly limit?: number }) => {
    const { admin } = await connect(session);
    const pages = pagesOf(limit, async (page) => {
      const { environments, nextPageToken } = await admin.listEnvironments(page);
      return { items: environments, nextPageToken };
    });
    await session.out.list(EnvironmentSchema, COLUMNS, pages);
  });
};

const COLUMNS: readonly Column<Environment>[] = [
  { name: "ENVIRONMENT", of: formatEnvironmentName, isFree: true },
  { name: "PARTITIONS", of: ({ partitions }) => String(partitions) },
  { name: "CREATED", of: ({ createTime }) => timeText(createTime) },
  { name: "STATE", of: ({ deleteTime }) => (deleteTime ? `deleting since ${timeText(deleteTime)}` : "active") },
];
