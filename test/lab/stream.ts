import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { LabNamespace } from "./namespace.ts";

const PROGRAM = fileURLToPath(new URL("stream_main.ts", import.meta.url));
const PORT = 5000;

/** Bulk traffic between namespaces, by processes of their own: senders and receivers do not share a thread with a test. */
export class Streams {
  readonly #children = new Set<ChildProcess>();

  /** Has a namespace receive whatever comes. Resolves once it does. */
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
   * @param bytesPerSecond of UDP; TCP sends what goes
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

/** The bytes an interface has received, by the kernel's count: whole frames, segments of one packet with one header. */
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
