import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { type Talk, TalkSchema, TalkService } from "../../test/gen/talk/v1/talk_pb.ts";
import { collectRpcs } from "../protocol/methods.ts";

it("decodes bytes to what Connect's adapter decodes them to, not to a Buffer that is cut out of the body", () => {
  const rpcs = collectRpcs({ routes: (router) => router.rpc(TalkService.method.say, (message) => message) });
  const body = Buffer.from(toBinary(TalkSchema, create(TalkSchema, { data: new Uint8Array([1, 2]) })));
  const [talk] = rpcs.map(({ unary }) => unary?.binary.parse(body) as Talk | undefined);
  const data = talk?.data;
  expect(data).toEqual(new Uint8Array([1, 2]));
  expect(data).not.toBeInstanceOf(Buffer);
  const copy = data?.slice();
  body.fill(0);
  expect(copy).toEqual(new Uint8Array([1, 2]));
});
