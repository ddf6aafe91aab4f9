import { expect, it } from "vitest";
import { jsonLine, printable } from "./printable.ts";

const HOSTILE = "a\u001b[31m\u009b31m\r\n\u0007\u202eb\u200b\u2060\u{e0041}\u2028\ud800\u00e9\u6f22\u{1f600}";

it("printable escapes characters that a terminal executes, reorders or does not show", () => {
  expect(printable(HOSTILE)).toBe(
    "a\\x1b[31m\\x9b31m\\x0d\\x0a\\x07\\u202eb\\u200b\\u2060\\u{e0041}\\u2028\\ud800\u00e9\u6f22\u{1f600}",
  );
});

it("jsonLine writes JSON on one line without unsafe characters, and keeps the value", () => {
  const line = jsonLine({ [HOSTILE]: HOSTILE });
  expect(printable(line)).toBe(line);
  expect(JSON.parse(line)).toEqual({ [HOSTILE]: HOSTILE });
});
