/* protobuf-es reads the request of every REST GET. */

export const plainGetRequest = () => () => undefined;
