import { createRegistry, type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import type { ServerReflectionRequest, ServerReflectionResponse } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { callError } from "./errors.ts";
import { memoize } from "./plain-text-rules.ts";

/** The messages of a reflection call. The services v1 and v1alpha differ only in the package name. */
type Request = Pick<ServerReflectionRequest, "host" | "messageRequest">;
type Answer = ServerReflectionResponse["messageResponse"];

/**
 * @param further the files that reflection serves in addition to the files of the services. If two files have the same
 *   name, reflection serves the file of `further`
 */
function answererOf(services: readonly DescService[], further: readonly DescFile[]) {
  const files = new Map(further.map((file) => [nameOf(file), file]));
  const add = (file: DescFile): void => {
    if (files.has(nameOf(file))) return;
    files.set(nameOf(file), file);
    for (const dependency of file.dependencies) add(dependency);
  };
  for (const { dependencies } of further) for (const file of dependencies) add(file);
  for (const { file } of services) add(file);
  const registry = createRegistry(...files.values());
  const bytesOf = memoize((file: DescFile) => toBinary(FileDescriptorProtoSchema, file.proto));

  const fileAnswer = (file: DescFile | undefined, requested: string): Answer => {
    if (!file) return unknown(requested);
    return { case: "fileDescriptorResponse", value: { fileDescriptorProto: [bytesOf(file)] } } as Answer;
  };

  const fileOfSymbol = (symbol: string): DescFile | undefined => {
    const desc = registry.get(symbol);
    if (desc) return desc.file;
    const dot = symbol.lastIndexOf(".");
    const parent = dot < 0 ? undefined : registry.get(symbol.slice(0, dot));
    const member = symbol.slice(dot + 1);
    if (parent?.kind === "service" && parent.methods.some(({ name }) => name === member)) return parent.file;
    if (parent?.kind === "message" && parent.members.some(({ name }) => name === member)) return parent.file;
    if (parent?.kind === "enum" && parent.values.some(({ name }) => name === member)) return parent.file;
    return undefined;
  };

  return (request: Request["messageRequest"]): Answer => {
    switch (request.case) {
      case "listServices": {
        const service = services.map(({ typeName: name }) => ({ name }));
        return { case: "listServicesResponse", value: { service } } as Answer;
      }
      case "fileByFilename":
        return fileAnswer(files.get(request.value), request.value);
      case "fileContainingSymbol":
        return fileAnswer(fileOfSymbol(request.value), request.value);
      case "fileContainingExtension": {
        const { containingType: type, extensionNumber } = request.value;
        const extendee = registry.getMessage(type);
        const extension = extendee && registry.getExtensionFor(extendee, extensionNumber);
        return fileAnswer(extension?.file, `${type} ${extensionNumber}`);
      }
      case "allExtensionNumbersOfType": {
        const baseTypeName = request.value;
        if (!registry.getMessage(baseTypeName)) return unknown(baseTypeName);
        const extensions = [...registry].filter((desc) => desc.kind === "extension");
        const ofType = extensions.filter(({ extendee }) => extendee.typeName === baseTypeName);
        const extensionNumber = ofType.map(({ number }) => number);
        return { case: "allExtensionNumbersResponse", value: { baseTypeName, extensionNumber } } as Answer;
      }
      default:
        return failure(Code.InvalidArgument, "the request is empty");
    }
  };
}

function nameOf(file: DescFile): string {
  return `${file.name}.proto`;
}

function unknown(requested: string): Answer {
  return failure(Code.NotFound, `this server does not have ${requested}`);
}

function failure(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } } as Answer;
}

/** The maximum number of requests in a stream. A client needs fewer requests to read all files and types. */
export const MAX_QUESTIONS = 1000;

/** The maximum size of all files in a stream, in bytes. A response can be 100 times longer than its request. */
export const MAX_FILE_BYTES = 4 * 1024 * 1024;

function tooMuch() {
  const message = `a reflection stream returns at most ${MAX_QUESTIONS} responses and ${MAX_FILE_BYTES / 2 ** 20} MiB of files; open another stream`;
  return callError(Code.ResourceExhausted, message, { reason: "TOO_MANY_QUESTIONS" });
}

/**
 * Implements `grpc.reflection` `ServerReflection` (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md).
 *
 * @param loadFiles loads files that reflection serves in addition to the files of the services. Called once, when the
 *   first client sends a request
 */
export function reflection(services: readonly DescService[], loadFiles: () => Promise<readonly DescFile[]>) {
  let indexing: Promise<ReturnType<typeof answererOf>> | undefined;
  return {
    async *serverReflectionInfo(requests: AsyncIterable<Request>) {
      indexing ??= loadFiles().then((files) => answererOf(services, files));
      const answer = await indexing;
      let questions = 0;
      let bytes = 0;
      for await (const originalRequest of requests) {
        const { host, messageRequest } = originalRequest;
        const messageResponse = answer(messageRequest);
        if (messageResponse.case === "fileDescriptorResponse") {
          for (const file of messageResponse.value.fileDescriptorProto) bytes += file.byteLength;
        }
        if (++questions > MAX_QUESTIONS || bytes > MAX_FILE_BYTES) throw tooMuch();
        yield { validHost: host, originalRequest: { host, messageRequest }, messageResponse };
      }
    },
  };
}
