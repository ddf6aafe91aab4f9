import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { newFolder } from "@user-group-service/testing/opened";

/**
 * A folder of secrets with the same links as a mounted Secret of Kubernetes. Each file is a link to a file in `..data`.
 * `..data` is a link to the folder of the current version.
 */
export interface MountedSecrets {
  readonly folder: string;
  pathOf(name: string): string;
  /** Replaces all secrets in one step, by linking `..data` to a new folder. */
  swap(changed: { readonly [name: string]: string }): void;
}

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

/** Opens a TLS connection to a server. Returns the subject of the server's certificate. */
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
