/** What went wrong with a connection, by the codes of the errors of Node that are behind a failed call. */
export type ConnectionFault = "refused" | "unknown-host" | "unreachable" | "reset" | "not-http" | "not-tls" | "tls";

const FAULTS: { readonly [code: string]: ConnectionFault } = {
  ECONNREFUSED: "refused",
  ENOTFOUND: "unknown-host",
  EAI_AGAIN: "unknown-host",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
  ETIMEDOUT: "unreachable",
  ECONNRESET: "reset",
  EPIPE: "reset",
  ERR_SSL_WRONG_VERSION_NUMBER: "not-tls",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "not-tls",
};

/** Faults that occur before anything is sent, and may be over soon. */
const BRIEF: ReadonlySet<ConnectionFault> = new Set(["refused", "unknown-host", "unreachable"]);

/**
 * Operations on an established connection. Their errors may have the same code as those of connecting, but the call may
 * have been sent.
 */
const ESTABLISHED: ReadonlySet<unknown> = new Set(["read", "write"]);

/** The fault of the connection that a failed call had, and Node's code of it; undefined when it had none. */
export function connectionFaultOf(error: unknown): { fault: ConnectionFault; code: string } | undefined {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 10; cause = cause.cause, depth++) {
    const { code, syscall } = cause as { code?: unknown; syscall?: unknown };
    if (typeof code !== "string") continue;
    // Node has no code for this one, only OpenSSL's words.
    if (code === "EPROTO" && /wrong version number|packet length too long/.test(cause.message))
      return { fault: "not-tls", code };
    const fault = FAULTS[code] ?? faultOfFamily(code);
    if (fault) return { fault: BRIEF.has(fault) && ESTABLISHED.has(syscall) ? "reset" : fault, code };
  }
  return undefined;
}

function faultOfFamily(code: string): ConnectionFault | undefined {
  if (code.startsWith("HPE_")) return "not-http";
  // OpenSSL's codes of certificates have no prefix in common.
  if (/^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|HOSTNAME_)/.test(code))
    return "tls";
  return undefined;
}

/** Whether it is certain that the service did not receive a call, because there was no connection. */
export function isNeverSent(error: unknown): boolean {
  const found = connectionFaultOf(error);
  return found !== undefined && BRIEF.has(found.fault);
}

/** What to do about faults of TLS, in the terms of who shows it. */
export interface TlsHints {
  /** The certificate of the service is for another name. */
  readonly otherName: string;
  /** The service wants a certificate of the caller. */
  readonly clientCertificate: string;
  /** The certificate of the service is of an authority that is not known here. */
  readonly authority: string;
}

/** What a fault of a connection to a URL is called, and what to do. */
export function wordsOfFault(
  { fault, code }: { readonly fault: ConnectionFault; readonly code: string },
  { url, hints }: { readonly url: URL; readonly hints: TlsHints },
): readonly [words: string, hint: string] {
  const { protocol, host, hostname } = url;
  const orTls = (otherwise: string) =>
    protocol === "http:" ? `where it speaks TLS, write https://; otherwise ${otherwise}` : otherwise;
  switch (fault) {
    case "refused":
      return [`nothing listens at ${host}`, "check the URL, and that the service runs"];
    case "unknown-host":
      return [`the name ${hostname} is not known`, "check the URL, and the resolver"];
    case "unreachable":
      return [`there is no way to it (${code})`, "check the URL, the network and its firewalls"];
    case "reset":
      return ["it closed the connection before it answered", orTls("try again")];
    case "not-http":
      return ["what it answers is no HTTP", orTls("check the port")];
    case "not-tls":
      return ["it does not speak TLS", "where it has none, write http://; otherwise check the port"];
    case "tls":
      return wordsOfTlsFault(code, hints);
  }
}

function wordsOfTlsFault(code: string, hints: TlsHints): readonly [words: string, hint: string] {
  if (/ALTNAME_INVALID/.test(code)) return ["its certificate is for another name", hints.otherName];
  if (/CERT_HAS_EXPIRED/.test(code)) return ["its certificate has expired", "have its operator renew it"];
  if (/CERT_NOT_YET_VALID/.test(code)) return ["its certificate is not yet valid", "check the clocks here and there"];
  if (/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE|UNKNOWN_CA|BAD_CERTIFICATE/.test(code))
    return ["it wants a certificate of the caller", hints.clientCertificate];
  if (/^(SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/.test(code))
    return ["its certificate is of an authority that is not trusted here", hints.authority];
  return [`TLS failed (${code})`, "check the URL"];
}
