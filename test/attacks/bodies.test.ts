import { gzipSync } from "node:zlib";
import { repeat } from "@user-group-service/testing/attacks/repeated";
import { authorization, head, protoField } from "@user-group-service/testing/attacks/requests";
import { PATHS } from "../support/subject.ts";
import { describeAttacks } from "./service.ts";

/**
 * A compressed UpdateUserGroupRequest. After decompression, the request has 1 MiB and consists of empty mapping
 * entries. So the request is small to send, but expensive to decode.
 */
const bomb = gzipSync(Buffer.alloc(1024 * 1024 - 16, protoField(3, "")));
const nested = Buffer.from("[".repeat(500_000) + "]".repeat(500_000));

/**
 * Returns an UpdateUserGroupRequest that contains the field `properties` many times. The first `properties` is a Struct
 * with many keys. Each further `properties` is an empty Struct, which protobuf merges into the first `properties`.
 */
function repeatedProperties({ keys, repeats }: { readonly keys: number; readonly repeats: number }): Buffer {
  const entries = Array.from({ length: keys }, (_, i) =>
    protoField(1, Buffer.concat([protoField(1, i.toString(36)), protoField(2, "")])),
  );
  const empty = Array.from({ length: repeats }, () => protoField(4, ""));
  return Buffer.concat([protoField(1, "acme"), protoField(4, Buffer.concat(entries)), ...empty]);
}

describeAttacks("messages of token holders", [
  {
    title: "a Struct of 4,000 keys, then 8,000 empty Structs (56 KB)",
    bounds: { cpuMs: 2000 },
    run: async (target) => {
      const [name, value] = authorization(target);
      const body = repeatedProperties({ keys: 4000, repeats: 8000 });
      const fields = { "Content-Type": "application/proto", [name]: value, "Content-Length": body.byteLength };
      return { requests: await repeat(target, 1, head("POST", PATHS.update, fields), body), outcome: "answered" };
    },
  },
  {
    title: "1 KiB of gzip that contains 1 MiB of mapping (Connect)",
    bounds: { cpuMs: 2500 },
    run: async (target) => {
      const [name, value] = authorization(target);
      const fields = { "Content-Type": "application/proto", "Content-Encoding": "gzip", [name]: value };
      const request = head("POST", PATHS.update, { ...fields, "Content-Length": bomb.byteLength });
      return { requests: await repeat(target, 5, request, bomb), outcome: "refused" };
    },
  },
  {
    title: "1 MiB of brackets (REST)",
    bounds: { cpuMs: 400 },
    run: async (target) => {
      const [name, value] = authorization(target);
      const request = head("PUT", "/api/user", { [name]: value, "Content-Length": nested.byteLength });
      return { requests: await repeat(target, 10, request, nested), outcome: "refused" };
    },
  },
]);
