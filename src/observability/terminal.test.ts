import { expect, it } from "vitest";
import { openLog } from "./log.ts";
import { terminalLine } from "./terminal.ts";

it("shows a line of the log as one line without quotes around it", async () => {
  const lines: string[] = [];
  const { logger } = await openLog({ level: "info", secrets: [], write: (line) => void lines.push(line) });
  logger.warn({ failed: ["store"], request_id: "a b" }, "not closed in time");
  expect(terminalLine(lines[0] ?? "")).toMatch(
    /^\d\d:\d\d:\d\d WARN {2}not closed in time failed=\["store"\] request_id="a b"\n$/,
  );
});

it("lets nobody write commands to the terminal", () => {
  const line = JSON.stringify({ time: 0, level: "info", msg: "x", id: "\u001b[2J\n\r\u007f\u009b2J" });
  expect(terminalLine(line)).toMatch(/^\S+ INFO {2}x id="\\u001b\[2J\\n\\r\\u007f\\u009b2J"\n$/);
});
