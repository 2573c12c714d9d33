import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import https from "node:https";
import { setTimeout as pause } from "node:timers/promises";
import { text } from "node:stream/consumers";
import { member } from "../../../policyd/sources/api/json_member.ts";
import { type Certificate, makeCertificate } from "../../support/certificate.ts";

/** The token of an administrator. */
export const ADMINISTRATOR_TOKEN = "t0ken-of-the-admin";

const PORT = 6443;
const ETCD = "http://127.0.0.1:2379";
const READY_MILLISECONDS = 120_000;
const SHOWN_OF_A_LOG = 4000;

export interface Answered {
  readonly status: number;
  readonly body: unknown;
}

/** The programs of a {@link RealCluster}, and the place where they run. */
export interface RealClusterParts {
  /** A new directory, for data, keys and logs. */
  readonly directory: string;
  /** The address that kube-apiserver listens on. */
  readonly address: string;
  readonly executables: Readonly<Record<"etcd" | "kube-apiserver", string>>;
  /** Runs an action in the network namespace of the programs; absent where it is this process's. */
  readonly inside?: <T>(action: () => T) => T;
}

/** etcd and kube-apiserver, with nothing else of a cluster: no controllers, and no nodes that find it by themselves. */
export class RealCluster {
  readonly url: URL;
  readonly authority: Certificate;
  readonly #parts: RealClusterParts;
  #etcd: ChildProcess | undefined;
  #server: ChildProcess | undefined;

  constructor(parts: RealClusterParts) {
    this.#parts = parts;
    this.url = new URL(`https://${parts.address}:${PORT}`);
    this.authority = writeFiles(parts);
  }

  startStorage(): void {
    this.#etcd = this.#spawn("etcd", [
      `--data-dir=${this.#parts.directory}/data`,
      // Nobody waits for this machine's disk.
      "--unsafe-no-fsync",
      `--listen-client-urls=${ETCD}`,
      `--advertise-client-urls=${ETCD}`,
      "--listen-peer-urls=http://127.0.0.1:2380",
    ]);
  }

  /**
   * Starts kube-apiserver and waits until it is ready.
   *
   * @param isReady asks whether it is
   * @throws Error with the end of its log if it does not become ready
   */
  async start(isReady: () => Promise<boolean> = () => this.#isReady()): Promise<void> {
    const { directory, address } = this.#parts;
    const file = (name: string): string => `${directory}/${name}`;
    const server = this.#spawn("kube-apiserver", [
      `--etcd-servers=${ETCD}`,
      `--bind-address=${address}`,
      `--secure-port=${PORT}`,
      // It may not be an address of loopback, and is not published.
      "--advertise-address=192.0.2.1",
      "--endpoint-reconciler-type=none",
      `--tls-cert-file=${file("server.crt")}`,
      `--tls-private-key-file=${file("server.key")}`,
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-key-file=${file("accounts.key")}`,
      `--service-account-signing-key-file=${file("accounts.key")}`,
      `--token-auth-file=${file("tokens.csv")}`,
      "--authorization-mode=RBAC",
      // No controller makes the service account of a namespace.
      "--disable-admission-plugins=ServiceAccount",
      "--service-cluster-ip-range=10.96.0.0/16",
    ]);
    this.#server = server;
    for (const deadline = performance.now() + READY_MILLISECONDS; !(await isReady());) {
      if (performance.now() > deadline || server.exitCode !== null) {
        const log = readFileSync(file("kube-apiserver.log"), "utf8").slice(-SHOWN_OF_A_LOG);
        throw new Error(`kube-apiserver is not ready:\n${log}`);
      }
      await pause(100);
    }
  }

  /** Kills kube-apiserver, like a crash. */
  async kill(): Promise<void> {
    await endOf(this.#server);
  }

  async stop(): Promise<void> {
    await Promise.all([this.#server, this.#etcd].map(endOf));
  }

  /** Returns the version that etcd reports. */
  async storageVersion(): Promise<string> {
    const version: unknown = await (await fetch(`${ETCD}/version`)).json();
    return String(member(version, "etcdserver"));
  }

  /** Sends a request as an administrator. @throws Error when there is no answer */
  ask(method: string, path: string, object?: unknown): Promise<Answered> {
    const headers = {
      Authorization: `Bearer ${ADMINISTRATOR_TOKEN}`,
      "Content-Type": method === "PATCH" ? "application/merge-patch+json" : "application/json",
    };
    const options = { method, headers, ca: this.authority.certificate };
    return new Promise((resolve, reject) => {
      const request = https.request(new URL(path, this.url), options, (response) => {
        text(response).then((body) => resolve({ status: response.statusCode ?? 0, body: parse(body) }), reject);
      });
      request.on("error", reject);
      request.end(object === undefined ? undefined : JSON.stringify(object));
    });
  }

  /** As {@link ask}, for a request that must succeed. */
  async must(method: string, path: string, object?: unknown): Promise<unknown> {
    const { status, body } = await this.ask(method, path, object);
    assert.ok(status >= 200 && status < 300, `${method} ${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  /** Makes etcd forget its history. */
  async compact(): Promise<void> {
    const post = async (path: string, body: object): Promise<unknown> => {
      const response = await fetch(`${ETCD}${path}`, { method: "POST", body: JSON.stringify(body) });
      assert.ok(response.ok, path);
      return response.json();
    };
    const revision = member(await post("/v3/kv/range", { key: "AA==" }), "header", "revision");
    await post("/v3/kv/compaction", { revision, physical: true });
  }

  async #isReady(): Promise<boolean> {
    try {
      return (await this.ask("GET", "/readyz")).status === 200;
    } catch {
      return false;
    }
  }

  #spawn(name: keyof RealClusterParts["executables"], args: readonly string[]): ChildProcess {
    const { directory, executables, inside = (action) => action() } = this.#parts;
    const log = openSync(`${directory}/${name}.log`, "a");
    return inside(() => spawn(executables[name], args, { stdio: ["ignore", log, log] }));
  }
}

/** Writes the server's keys, certificates and tokens. @returns the authority that signed its certificate */
function writeFiles({ directory, address }: RealClusterParts): Certificate {
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
  for (const [name, content] of Object.entries(files)) writeFileSync(`${directory}/${name}`, content);
  return authority;
}

async function endOf(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
