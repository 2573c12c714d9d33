import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { LabNamespace } from "./namespace.ts";

const PROGRAM = fileURLToPath(new URL("stream_main.ts", import.meta.url));
const PORT = 5000;

/** Bulk traffic between namespaces, by separate processes: senders and receivers do not share a thread with a test. */
export class Streams {
  readonly #children = new Set<ChildProcess>();

  /** Starts a receiver of all traffic in a namespace. Resolves once it listens. */
  async serve(namespace: LabNamespace): Promise<void> {
    const child = this.#start(namespace, ["serve", String(PORT)]);
    await new Promise<void>((resolve, reject) => {
      child.on("exit", () => reject(new Error(`${namespace.name}: the receiver has ended`)));
      child.stdout?.once("data", () => resolve());
    });
  }

  /**
   * Sends from a namespace to a receiver until the returned function is called.
   *
   * @param bytesPerSecond for UDP; TCP sends as fast as possible
   */
  send(from: LabNamespace, protocol: "tcp" | "udp", address: string, bytesPerSecond = 0): () => Promise<void> {
    const child = this.#start(from, ["send", protocol, address, String(PORT), String(bytesPerSecond)]);
    return () => this.#stop(child);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.#stop(child)));
  }

  #start(namespace: LabNamespace, args: readonly string[]): ChildProcess {
    const child = namespace.inside(() =>
      spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "inherit"] }),
    );
    this.#children.add(child);
    return child;
  }

  async #stop(child: ChildProcess): Promise<void> {
    if (!this.#children.delete(child)) return;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}

/**
 * Returns the bytes that an interface has received, as the kernel counts them: whole frames; segments that form one
 * packet have one header.
 */
export function receivedBytes(namespace: LabNamespace, name: string): number {
  const text = namespace.inside(() => readFileSync("/proc/thread-self/net/dev", "latin1"));
  const line = text.split("\n").find((row) => row.trimStart().startsWith(`${name}:`));
  if (line === undefined) throw new Error(`${namespace.name} has no interface ${name}`);
  return Number(
    line
      .slice(line.indexOf(":") + 1)
      .trim()
      .split(/\s+/)[0],
  );
}
