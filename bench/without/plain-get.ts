/* REST's GET becomes a message by protobuf-es. */

export const plainGet = () => () => undefined;
