import { expect, it } from "vitest";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { reflection } from "./reflection.ts";

/** The bytes of the file that a symbol is in. */
async function bytesOf(served: ReturnType<typeof reflection>, value: string): Promise<Uint8Array | undefined> {
  const requests = (async function* () {
    yield { host: "", messageRequest: { case: "fileContainingSymbol", value } } as const;
  })();
  for await (const { messageResponse } of served.serverReflectionInfo(requests)) {
    if (messageResponse.case === "fileDescriptorResponse") return messageResponse.value.fileDescriptorProto[0];
  }
  return undefined;
}

it("serializes a file once, however often it is asked for", async () => {
  const served = reflection([Health], []);
  const first = await bytesOf(served, "grpc.health.v1.Health");
  expect(first?.byteLength).toBeGreaterThan(100);
  expect(await bytesOf(served, "grpc.health.v1.HealthCheckRequest")).toBe(first);
});
