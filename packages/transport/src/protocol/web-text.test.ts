import { base64Decode } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeWebText, WebTextDecoder } from "./web-text.ts";

describe("gRPC-Web text", () => {
  it("a text is decoded to the same bytes as by protobuf-es, even if it is split at any character", () => {
    const characters = fc.constantFrom(..."ABCDxyz019+/-_= \n\t!é");
    fc.assert(
      fc.property(fc.array(characters, { maxLength: 40 }), fc.nat(40), (letters, cut) => {
        const text = letters.join("");
        // protobuf-es ignores a single character before padding. If padding follows a complete group of four
        // characters, or if whitespace follows the padding, protobuf-es drops bytes.
        fc.pre(!/(^|=)\s*(?:(?:[^=\s]\s*){4})*(?:[^=\s]\s*)?=/.test(text) && !/=\s+$/.test(text));
        const expected = attempt(() => Buffer.from(base64Decode(text)).toString("hex"));
        const bytes = Buffer.from(text);
        expect(attempt(() => Buffer.from(decodeWebText(bytes)).toString("hex"))).toEqual(expected);
        const inPieces = attempt(() => {
          const decoder = new WebTextDecoder();
          const pieces = [decoder.decode(bytes.subarray(0, cut)), decoder.decode(bytes.subarray(cut)), decoder.end()];
          return Buffer.concat(pieces).toString("hex");
        });
        expect(inPieces).toEqual(expected);
      }),
    );
  });

  it("a text of 350,000 padded pieces is decoded", () => {
    expect(decodeWebText(Buffer.from("AA==".repeat(350_000))).byteLength).toBe(350_000);
  });
});

function attempt<T>(decode: () => T): T | "refused" {
  try {
    return decode();
  } catch {
    return "refused";
  }
}
