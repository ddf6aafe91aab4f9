import { figuresByRow, figuresOf, textOf } from "@user-group-service/testing/documents";
import { expect, it } from "vitest";
import {
  BODY_BYTES,
  DEFAULT_LIMITS,
  MAX_HEADER_BYTES,
  MAX_HTTP2_STREAMS,
  MAX_PIPELINED,
  RESPONSE_BYTES,
} from "./limits.ts";

const README = "packages/transport/README.md";

it("the README lists every limit option with its default", () => {
  const rows = figuresByRow(README, "Options").map(([what, ...figures]) => [what.split(":")[0], ...figures]);
  const limits = Object.entries(DEFAULT_LIMITS).map(([name, value]) =>
    Number.isFinite(value) ? [name, value] : [name],
  );
  expect(rows.slice(-limits.length)).toEqual(limits);
});

it("the README lists the fixed limits", () => {
  const [fixed = ""] = /^- Fixed limits: [^-]*/m.exec(textOf(README)) ?? [];
  const ofMemory = [BODY_BYTES, RESPONSE_BYTES.node, RESPONSE_BYTES.deno];
  expect(figuresOf(fixed)).toEqual([MAX_HEADER_BYTES, MAX_HTTP2_STREAMS, MAX_PIPELINED, ...ofMemory]);
});
