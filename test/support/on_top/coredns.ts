import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type Mocha from "mocha";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { CACHE } from "../programs/go.ts";
import { skip } from "../privilege.ts";
import { Program } from "./program.ts";

const VERSION = "1.12.1";

/**
 * Returns the path of CoreDNS: DRAWBRIDGE_COREDNS, else the program in the user's cache. Without it the test is
 * skipped, in continuous integration as well, since this foreign program takes ten minutes to build.
 */
export function requireCoreDns(context: Mocha.Context): string {
  const file = process.env["DRAWBRIDGE_COREDNS"] || path.join(CACHE, `coredns-${VERSION}`, "coredns");
  if (existsSync(file)) return file;
  const command = `GOBIN=${path.dirname(file)} CGO_ENABLED=0 go install github.com/coredns/coredns@v${VERSION}`;
  return skip(context, `no CoreDNS: ${command}`);
}

/** Starts CoreDNS in a namespace, which reads the objects of an API server; resolves when it answers. */
export async function startCoreDns(lab: Lab, namespace: LabNamespace, file: string, api: string): Promise<Program> {
  const configuration = `${lab.scratch}/Corefile`;
  writeFileSync(
    configuration,
    `.:53 {
  errors
  ready
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    endpoint ${api}
    pods disabled
    ttl 0
  }
}
`,
  );
  const program = new Program(lab, namespace, file, ["-conf", configuration]);
  await program.written(/CoreDNS-/);
  return program;
}
