import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate with its key: where they are, and what they say in PEM. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

/** Certificates that last for the test. */
export interface Certificates {
  /** The folder that they are in. */
  readonly folder: string;
  /** Signs `server` and `client`. */
  readonly ca: Certificate;
  /** For 127.0.0.1. */
  readonly server: Certificate;
  readonly client: Certificate;
  /** Of the same name as `client`, signed by another authority. */
  readonly stranger: Certificate;
}

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];

function make(folder: string, name: string, subject: string, args: readonly string[]): Certificate {
  const [certFile, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  const files = ["-out", certFile, "-keyout", keyFile, "-subj", `/CN=${subject}`];
  execFileSync("openssl", ["req", "-x509", ...NEW_KEY, ...files, ...args], { stdio: "pipe" });
  return { certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}

function signedBy({ certFile, keyFile }: Certificate): string[] {
  return ["-CA", certFile, "-CAkey", keyFile, "-addext", "basicConstraints=critical,CA:FALSE"];
}

/** Makes a further certificate for 127.0.0.1, in the folder of the others. @param name of its files and its subject */
export function makeServerCertificate({ folder, ca }: Pick<Certificates, "folder" | "ca">, name: string): Certificate {
  return make(folder, name, name, [...signedBy(ca), "-addext", "subjectAltName=IP:127.0.0.1"]);
}

/** Makes certificates with the openssl command; the caller removes them in the end. */
export function makeCertificates(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), "ugs-tls-"));
  const ca = make(folder, "ca", "authority", []);
  const other = make(folder, "other-ca", "authority", []);
  return {
    folder,
    ca,
    server: makeServerCertificate({ folder, ca }, "server"),
    client: make(folder, "client", "client", signedBy(ca)),
    stranger: make(folder, "stranger", "client", signedBy(other)),
  };
}

/** Removes certificates and their folder. */
export function removeCertificates({ folder }: Certificates): void {
  rmSync(folder, { recursive: true, force: true });
}
