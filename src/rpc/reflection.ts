import { createRegistry, type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import type { ServerReflectionRequest, ServerReflectionResponse } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { callError } from "./errors.ts";
import { memoize } from "./plain-text-rules.ts";

/** The messages of a reflection call. v1 and v1alpha differ only in their package. */
type Request = Pick<ServerReflectionRequest, "host" | "messageRequest">;
type Answer = ServerReflectionResponse["messageResponse"];

/** The schema, indexed by what reflection clients ask for. */
class SchemaIndex {
  readonly #services: readonly DescService[];
  readonly #files = new Map<string, DescFile>();
  readonly #registry: ReturnType<typeof createRegistry>;
  readonly #bytesOf = memoize((file: DescFile) => toBinary(FileDescriptorProtoSchema, file.proto));

  /**
   * @param files further files, which error details use but no service imports; they take precedence over files of the
   *   same name
   */
  constructor(services: readonly DescService[], files: readonly DescFile[]) {
    this.#services = services;
    for (const file of files) this.#files.set(nameOf(file), file);
    for (const { dependencies } of files) for (const file of dependencies) this.#add(file);
    for (const { file } of services) this.#add(file);
    this.#registry = createRegistry(...this.#files.values());
  }

  answer(request: Request["messageRequest"]): Answer {
    switch (request.case) {
      case "listServices": {
        const service = this.#services.map(({ typeName: name }) => ({ name }));
        return { case: "listServicesResponse", value: { service } } as Answer;
      }
      case "fileByFilename":
        return this.#fileAnswer(this.#files.get(request.value), request.value);
      case "fileContainingSymbol":
        return this.#fileAnswer(this.#fileOfSymbol(request.value), request.value);
      case "fileContainingExtension": {
        const { containingType: type, extensionNumber } = request.value;
        const extendee = this.#registry.getMessage(type);
        const extension = extendee && this.#registry.getExtensionFor(extendee, extensionNumber);
        return this.#fileAnswer(extension?.file, `${type} ${extensionNumber}`);
      }
      case "allExtensionNumbersOfType": {
        const baseTypeName = request.value;
        if (!this.#registry.getMessage(baseTypeName)) return unknown(baseTypeName);
        const extensions = [...this.#registry].filter((desc) => desc.kind === "extension");
        const ofType = extensions.filter(({ extendee }) => extendee.typeName === baseTypeName);
        const extensionNumber = ofType.map(({ number }) => number);
        return { case: "allExtensionNumbersResponse", value: { baseTypeName, extensionNumber } } as Answer;
      }
      default:
        return failure(Code.InvalidArgument, "the request is empty");
    }
  }

  #fileAnswer(file: DescFile | undefined, asked: string): Answer {
    if (!file) return unknown(asked);
    return { case: "fileDescriptorResponse", value: { fileDescriptorProto: [this.#bytesOf(file)] } } as Answer;
  }

  /** The file that defines a type, service, method, field or extension. */
  #fileOfSymbol(symbol: string): DescFile | undefined {
    const desc = this.#registry.get(symbol);
    if (desc) return desc.file;
    const dot = symbol.lastIndexOf(".");
    const parent = dot < 0 ? undefined : this.#registry.get(symbol.slice(0, dot));
    const member = symbol.slice(dot + 1);
    if (parent?.kind === "service" && parent.methods.some(({ name }) => name === member)) return parent.file;
    if (parent?.kind === "message" && parent.members.some(({ name }) => name === member)) return parent.file;
    if (parent?.kind === "enum" && parent.values.some(({ name }) => name === member)) return parent.file;
    return undefined;
  }

  #add(file: DescFile): void {
    const name = nameOf(file);
    if (this.#files.has(name)) return;
    this.#files.set(name, file);
    for (const dependency of file.dependencies) this.#add(dependency);
  }
}

function nameOf(file: DescFile): string {
  return `${file.name}.proto`;
}

function unknown(asked: string): Answer {
  return failure(Code.NotFound, `this server does not know ${asked}`);
}

function failure(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } } as Answer;
}

/**
 * How many questions a stream may ask. A client that asks for every file and every type of the schema by name needs a
 * fraction.
 */
export const MAX_QUESTIONS = 1000;

/**
 * How many bytes of files a stream gets. One that asks for the largest file again and again would get a hundred times what
 * it sends.
 */
export const MAX_FILE_BYTES = 4 * 1024 * 1024;

function tooMuch() {
  const message = `a reflection stream answers ${MAX_QUESTIONS} questions with ${MAX_FILE_BYTES / 2 ** 20} MiB of files; call again for more`;
  return callError(Code.ResourceExhausted, message, { reason: "TOO_MANY_QUESTIONS" });
}

/**
 * grpc.reflection ServerReflection (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md).
 *
 * @param loadFiles loads what is served beside the files of the services, so that clients can read error details; called
 *   once, when a client first asks
 */
export function reflection(services: readonly DescService[], loadFiles: () => Promise<readonly DescFile[]>) {
  let indexing: Promise<SchemaIndex> | undefined;
  return {
    async *serverReflectionInfo(requests: AsyncIterable<Request>) {
      indexing ??= loadFiles().then((files) => new SchemaIndex(services, files));
      const index = await indexing;
      let questions = 0;
      let bytes = 0;
      for await (const originalRequest of requests) {
        const { host, messageRequest } = originalRequest;
        const messageResponse = index.answer(messageRequest);
        if (messageResponse.case === "fileDescriptorResponse") {
          for (const file of messageResponse.value.fileDescriptorProto) bytes += file.byteLength;
        }
        if (++questions > MAX_QUESTIONS || bytes > MAX_FILE_BYTES) throw tooMuch();
        yield { validHost: host, originalRequest: { host, messageRequest }, messageResponse };
      }
    },
  };
}
