import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Certificate, makeCertificate } from "../../support/certificate.ts";

/** The token of an administrator of an API server with {@link apiServerArguments}. */
export const ADMINISTRATOR_TOKEN = "t0ken-of-the-admin";

/** The address of a kube-apiserver, and its surroundings. */
export interface StandaloneApiServer {
  /** The directory of {@link writeApiServerFiles}. */
  readonly directory: string;
  readonly etcd: string;
  /** The address that it listens on, and its port. */
  readonly address: string;
  readonly port: number | string;
  /** The address that it names as its own; it is not published. */
  readonly advertised: string;
  readonly authorization: "RBAC" | "Node,RBAC";
  readonly services: string;
}

/**
 * Writes the keys, certificates and tokens that {@link apiServerArguments} names.
 *
 * @param address the server's, for its certificate
 * @returns the authority that signed the server's certificate
 */
export function writeApiServerFiles(directory: string, address: string): Certificate {
  const authority = makeCertificate("authority");
  const { certificate, key } = makeCertificate("server", authority, address);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const files = {
    "server.crt": certificate,
    "server.key": key,
    "accounts.key": privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    "tokens.csv": `${ADMINISTRATOR_TOKEN},admin,1,"system:masters"\n`,
  };
  mkdirSync(directory, { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(directory, name), content);
  return authority;
}

/**
 * Returns the arguments of a kube-apiserver with only etcd: no controllers, and no nodes that find it by themselves.
 */
export function apiServerArguments(server: StandaloneApiServer): readonly string[] {
  const file = (name: string): string => path.join(server.directory, name);
  return [
    `--etcd-servers=${server.etcd}`,
    `--bind-address=${server.address}`,
    `--secure-port=${server.port}`,
    `--advertise-address=${server.advertised}`,
    // No other node must find it.
    "--endpoint-reconciler-type=none",
    `--tls-cert-file=${file("server.crt")}`,
    `--tls-private-key-file=${file("server.key")}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${file("accounts.key")}`,
    `--service-account-signing-key-file=${file("accounts.key")}`,
    `--token-auth-file=${file("tokens.csv")}`,
    `--authorization-mode=${server.authorization}`,
    // No controller makes the service account of a namespace.
    "--disable-admission-plugins=ServiceAccount",
    `--service-cluster-ip-range=${server.services}`,
  ];
}
