import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import https from "node:https";
import { setTimeout as pause } from "node:timers/promises";
import { text } from "node:stream/consumers";
import { member } from "../../../policyd/sources/api/json_member.ts";
import type { Certificate } from "../../support/certificate.ts";
import { ADMINISTRATOR_TOKEN, apiServerArguments, writeApiServerFiles } from "./standalone.ts";

export const SERVER = new URL("https://127.0.0.1:6443");
const ETCD = "http://127.0.0.1:2379";

export interface Answered {
  readonly status: number;
  readonly body: unknown;
}

/** etcd and kube-apiserver on this network namespace's loopback, with nothing else of a cluster. */
export class RealCluster {
  readonly authority: Certificate;
  readonly #directory: string;
  #etcd: ChildProcess | undefined;
  #server: ChildProcess | undefined;

  /** @param directory an empty one, for data, keys and logs */
  constructor(directory: string) {
    this.#directory = directory;
    this.authority = writeApiServerFiles(directory, SERVER.hostname);
  }

  /** @param executable of etcd */
  startStorage(executable: string): void {
    const peers = "http://127.0.0.1:2380";
    this.#etcd = this.#spawn("etcd", executable, [
      `--data-dir=${this.#directory}/data`,
      `--listen-client-urls=${ETCD}`,
      `--advertise-client-urls=${ETCD}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=default=${peers}`,
    ]);
  }

  /**
   * Starts kube-apiserver and waits until it is ready. @throws Error with the end of its log if it does not become
   * ready
   */
  async start(executable: string): Promise<void> {
    const server = this.#spawn(
      "kube-apiserver",
      executable,
      apiServerArguments({
        directory: this.#directory,
        etcd: ETCD,
        address: SERVER.hostname,
        port: SERVER.port,
        advertised: "192.0.2.1",
        authorization: "RBAC",
        services: "10.96.0.0/16",
      }),
    );
    this.#server = server;
    for (let left = 600; !(await this.#isReady()); left--) {
      if (left === 0 || server.exitCode !== null) {
        throw new Error(
          `kube-apiserver is not ready:\n${readFileSync(`${this.#directory}/kube-apiserver.log`, "utf8").slice(-4000)}`,
        );
      }
      await pause(100);
    }
  }

  /** Kills kube-apiserver, like a crash. */
  async kill(): Promise<void> {
    await endOf(this.#server);
  }

  async stop(): Promise<void> {
    await endOf(this.#server);
    await endOf(this.#etcd);
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
      const request = https.request(new URL(path, SERVER), options, (response) => {
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

  #spawn(name: string, executable: string, args: readonly string[]): ChildProcess {
    const log = openSync(`${this.#directory}/${name}.log`, "a");
    return spawn(executable, args, { stdio: ["ignore", log, log] });
  }
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
