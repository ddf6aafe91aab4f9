import { readFileSync } from "node:fs";
import {
  createFileRegistry,
  type DescMessage,
  type DescService,
  type FileRegistry,
  fromBinary,
  type Message,
} from "@bufbuild/protobuf";
import { type Any, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

export type Header = Message<"connectrpc.conformance.v1.Header"> & { name: string; value: string[] };

/** An error that the server must return. The codes are those of Connect. */
export type ErrorDefinition = Message<"connectrpc.conformance.v1.Error"> & {
  code: number;
  message?: string;
  details: Any[];
};

interface Definition {
  responseHeaders: Header[];
  responseTrailers: Header[];
  responseDelayMs: number;
}

export type UnaryDefinition = Message<"connectrpc.conformance.v1.UnaryResponseDefinition"> &
  Definition & {
    response:
      | { case: "responseData"; value: Uint8Array }
      | { case: "error"; value: ErrorDefinition }
      | { case: undefined; value?: undefined };
  };

export type StreamDefinition = Message<"connectrpc.conformance.v1.StreamResponseDefinition"> &
  Definition & { responseData: Uint8Array[]; error?: ErrorDefinition };

export type UnaryRequest = Message & { responseDefinition?: UnaryDefinition };

/** The message of ServerStream and BidiStream; only BidiStream has `fullDuplex`. */
export type StreamRequest = Message & { responseDefinition?: StreamDefinition; fullDuplex?: boolean };

export type ServerCompatRequest = Message<"connectrpc.conformance.v1.ServerCompatRequest"> & {
  useTls: boolean;
  /** The certificate of clients, in PEM; empty if clients need no certificate. */
  clientTlsCert: Uint8Array;
  /** The maximum size of a message, in bytes; 0 for no limit. */
  messageReceiveLimit: number;
  serverCreds?: Message & { cert: Uint8Array; key: Uint8Array };
};

/** The suite's definitions. The Go module of the suite contains the definitions, so this repository keeps no copy. */
export interface Schemas {
  readonly registry: FileRegistry;
  readonly service: DescService;
  readonly requestInfo: DescMessage;
  readonly serverRequest: DescMessage;
  readonly serverResponse: DescMessage;
}

/** Reads the suite's definitions. @param path path of a serialized FileDescriptorSet */
export function readSchemas(path: string): Schemas {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(path)));
  const message = (name: string) => found(registry.getMessage(`connectrpc.conformance.v1.${name}`));
  return {
    registry,
    service: found(registry.getService("connectrpc.conformance.v1.ConformanceService")),
    requestInfo: message("ConformancePayload.RequestInfo"),
    serverRequest: message("ServerCompatRequest"),
    serverResponse: message("ServerCompatResponse"),
  };
}

function found<T>(description: T | undefined): T {
  if (description === undefined) throw new Error("the definitions of the conformance suite have changed");
  return description;
}
