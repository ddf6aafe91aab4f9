import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { ReadSetting, TlsConfig } from "./config.ts";
import { SettingError } from "./parse.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Reads and checks the files that the TLS settings name.
 *
 * @param faults collects what is wrong
 * @returns undefined without TLS, or when something is wrong
 */
export function readTls(read: ReadSetting, faults: string[]): TlsConfig | undefined {
  const before = faults.length;
  const cert = read("TLS_CERT_FILE", file, undefined);
  const key = read("TLS_KEY_FILE", file, undefined);
  const clientCa = read("TLS_CLIENT_CA_FILE", file, undefined);
  if (faults.length > before) return undefined;
  if (cert === undefined && key === undefined) {
    if (clientCa !== undefined)
      faults.push(
        "TLS_CLIENT_CA_FILE needs TLS_CERT_FILE and TLS_KEY_FILE: without TLS no client is asked for a certificate",
      );
    return undefined;
  }
  if (cert === undefined || key === undefined) {
    faults.push(
      `${cert === undefined ? "TLS_CERT_FILE" : "TLS_KEY_FILE"} is missing: a certificate and its key go together`,
    );
    return undefined;
  }
  faults.push(...faultsOf({ cert, key, clientCa }));
  return faults.length > before ? undefined : { cert, key, clientCa };
}

/** Reads a file of CAs. @throws SettingError */
export function caFile(path: string): string {
  const ca = file(path);
  if (certificatesOf(ca).length === 0) throw new SettingError("must hold one or more certificates in PEM");
  return ca;
}

/** @throws SettingError, whose message repeats the path, and so must not get a key in its place */
function file(path: string): string {
  if (path.includes("-----BEGIN")) throw new SettingError("holds the text of a file; give the path of the file");
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new SettingError(`cannot be read: ${(error as { code?: string }).code ?? "unknown error"} at ${path}`);
  }
}

/** Checks for what a TLS server would refuse, or what one of the runtimes would silently ignore. */
function faultsOf({ cert, key, clientCa }: TlsConfig): string[] {
  const faults: string[] = [];
  const [certificate] = certificatesOf(cert);
  const privateKey = privateKeyOf(key);
  if (!certificate) faults.push("TLS_CERT_FILE must hold a certificate in PEM");
  if (!privateKey) faults.push("TLS_KEY_FILE must hold a private key in PEM without a passphrase");
  if (certificate && privateKey && !certificate.checkPrivateKey(privateKey))
    faults.push("TLS_KEY_FILE is not the key of the certificate in TLS_CERT_FILE");
  // With an empty file, Node would trust the system's CAs, and so accept anybody's client certificate.
  if (clientCa !== undefined && certificatesOf(clientCa).length === 0)
    faults.push("TLS_CLIENT_CA_FILE must hold one or more certificates in PEM");
  if (faults.length > 0) return faults;
  try {
    createSecureContext({ cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) });
    return [];
  } catch (error) {
    return [`TLS_CERT_FILE and TLS_KEY_FILE cannot be used: ${(error as { code?: string }).code ?? "unknown error"}`];
  }
}

/** The certificates in a PEM text; empty when one of them is invalid. */
function certificatesOf(pem: string): X509Certificate[] {
  try {
    return (pem.match(CERTIFICATE) ?? []).map((block) => new X509Certificate(block));
  } catch {
    return [];
  }
}

function privateKeyOf(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
