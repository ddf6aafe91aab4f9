import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

export interface Certificates {
  readonly folder: string;
  /** The CA that signs `server` and `client`. */
  readonly ca: Certificate;
  /** A certificate for the address 127.0.0.1. */
  readonly server: Certificate;
  readonly client: Certificate;
  /**
   * A client certificate that another CA has signed. The certificate has the same subject as `client`, and the other CA
   * has the same subject as `ca`.
   */
  readonly untrusted: Certificate;
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

/** Creates a server certificate for 127.0.0.1. @param name the base name of the files, and the subject */
export function makeServerCertificate({ folder, ca }: Pick<Certificates, "folder" | "ca">, name: string): Certificate {
  return make(folder, name, name, [...signedBy(ca), "-addext", "subjectAltName=IP:127.0.0.1"]);
}

/** Creates certificates with the openssl command. The caller must call `removeCertificates`. */
export function makeCertificates(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), "ugs-tls-"));
  const ca = make(folder, "ca", "authority", []);
  const other = make(folder, "other-ca", "authority", []);
  return {
    folder,
    ca,
    server: makeServerCertificate({ folder, ca }, "server"),
    client: make(folder, "client", "client", signedBy(ca)),
    untrusted: make(folder, "untrusted", "client", signedBy(other)),
  };
}

export function removeCertificates({ folder }: Certificates): void {
  rmSync(folder, { recursive: true, force: true });
}
