import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { newFolder } from "@user-group-service/testing/opened";

/** Secrets in a folder, mounted as in Kubernetes: links into `..data`, which links to a folder of one version. */
export interface MountedSecrets {
  readonly folder: string;
  pathOf(name: string): string;
  /** Replaces all secrets at once: the link then leads to a new folder. */
  swap(changed: { readonly [name: string]: string }): void;
}

/** Mounts secrets for the running test. */
export function mountSecrets(initial: { readonly [name: string]: string }): MountedSecrets {
  const folder = newFolder();
  let texts = initial;
  let version = 0;
  const write = () => {
    const name = `..version_${++version}`;
    mkdirSync(join(folder, name));
    for (const [file, text] of Object.entries(texts)) writeFileSync(join(folder, name, file), text);
    symlinkSync(name, join(folder, "..data_tmp"));
    renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
    if (version > 1) rmSync(join(folder, `..version_${version - 1}`), { recursive: true });
  };
  write();
  for (const file of Object.keys(texts)) symlinkSync(join("..data", file), join(folder, file));
  return {
    folder,
    pathOf: (name) => join(folder, name),
    swap(changed) {
      texts = { ...texts, ...changed };
      write();
    },
  };
}

/** Returns the subject of the certificate that a server presents to a new connection. */
export function shownBy(url: string, ca: string): Promise<string | undefined> {
  const { hostname: host, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port), ca }, () => {
      const { CN } = socket.getPeerCertificate().subject;
      resolve(typeof CN === "string" ? CN : undefined);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}
