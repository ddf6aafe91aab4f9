/** The cause of a failed connection. `connectionFaultOf` derives this cause from the code of the Node error. */
export type ConnectionFault = "refused" | "unknown-host" | "unreachable" | "reset" | "not-http" | "not-tls" | "tls";

const FAULTS: readonly (readonly [codes: RegExp, ConnectionFault])[] = [
  [/^ECONNREFUSED$/, "refused"],
  [/^(ENOTFOUND|EAI_AGAIN)$/, "unknown-host"],
  [/^(EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ETIMEDOUT)$/, "unreachable"],
  [/^(ECONNRESET|EPIPE)$/, "reset"],
  [/^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/, "not-tls"],
  [/^HPE_/, "not-http"],
  // The OpenSSL codes for certificates have no common prefix.
  [/^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|HOSTNAME_)/, "tls"],
];

/** Temporary faults that prevent a connection. Without a connection, the client cannot have sent the call. */
const BRIEF: ReadonlySet<ConnectionFault> = new Set(["refused", "unknown-host", "unreachable"]);

/**
 * System calls on an established connection. If one of them failed, the client may already have sent the call. The
 * error code does not show this, because a failed attempt to connect can return the same code.
 */
const ESTABLISHED: ReadonlySet<unknown> = new Set(["read", "write"]);

/**
 * Returns the connection fault that made a call fail, and the code of the Node error. Returns undefined if the
 * connection did not fail.
 */
export function connectionFaultOf(error: unknown): { fault: ConnectionFault; code: string } | undefined {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 10; cause = cause.cause, depth++) {
    const { code, syscall } = cause as { code?: unknown; syscall?: unknown };
    if (typeof code !== "string") continue;
    // Node uses the code EPROTO for many faults. Only the message of OpenSSL identifies this fault.
    if (code === "EPROTO" && /wrong version number|packet length too long/.test(cause.message))
      return { fault: "not-tls", code };
    const fault = FAULTS.find(([codes]) => codes.test(code))?.[1];
    if (fault) return { fault: BRIEF.has(fault) && ESTABLISHED.has(syscall) ? "reset" : fault, code };
  }
  return undefined;
}

/** Returns true if the client could not connect. In this case, the service cannot have received the call. */
export function isNeverSent(error: unknown): boolean {
  const found = connectionFaultOf(error);
  return found !== undefined && BRIEF.has(found.fault);
}

/** The remedies for TLS faults. Each program that shows these texts has its own options, so its remedies differ. */
export interface TlsHints {
  /** Remedy if the certificate of the service does not contain the host name of the URL. */
  readonly otherName: string;
  /** Remedy if the service requires a client certificate. */
  readonly clientCertificate: string;
  /** Remedy if an unknown CA has signed the certificate of the service. */
  readonly authority: string;
}

/** Returns the description of a connection fault, and the remedy. */
export function wordsOfFault(
  { fault, code }: { readonly fault: ConnectionFault; readonly code: string },
  { url, hints }: { readonly url: URL; readonly hints: TlsHints },
): readonly [words: string, hint: string] {
  const { protocol, host, hostname } = url;
  const orTls = (otherwise: string) =>
    protocol === "http:" ? `if the server speaks TLS, write https://; otherwise ${otherwise}` : otherwise;
  switch (fault) {
    case "refused":
      return [`nothing listens at ${host}`, "check the URL, and whether the service runs"];
    case "unknown-host":
      return [`the name ${hostname} cannot be resolved`, "check the URL and DNS"];
    case "unreachable":
      return [`the network cannot reach ${host} (${code})`, "check the URL, the network and its firewalls"];
    case "reset":
      return ["the server closed the connection before it responded", orTls("try again")];
    case "not-http":
      return ["the response is not HTTP", orTls("check the port")];
    case "not-tls":
      return ["the server does not speak TLS", "if the server has no TLS, write http://; otherwise check the port"];
    case "tls":
      return wordsOfTlsFault(code, hints);
  }
}

function wordsOfTlsFault(code: string, hints: TlsHints): readonly [words: string, hint: string] {
  if (/ALTNAME_INVALID/.test(code)) return ["the certificate is for another host name", hints.otherName];
  if (/CERT_HAS_EXPIRED/.test(code)) return ["the certificate has expired", "ask the operator to renew it"];
  if (/CERT_NOT_YET_VALID/.test(code)) return ["the certificate is not yet valid", "check the clocks of both machines"];
  if (/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE|UNKNOWN_CA|BAD_CERTIFICATE/.test(code))
    return ["the server requires a client certificate", hints.clientCertificate];
  if (/^(SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/.test(code))
    return ["the certificate is signed by an untrusted CA", hints.authority];
  return [`TLS failed (${code})`, "check the URL"];
}
