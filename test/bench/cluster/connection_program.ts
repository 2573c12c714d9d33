import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { LabNamespace } from "../../lab/namespace.ts";

const SOURCE = fileURLToPath(new URL("connection.c", import.meta.url));
const LIMIT_MILLISECONDS = 20_000;
const NANOSECONDS_PER_MICROSECOND = 1000;

/**
 * The kind of a measurement: a TCP connect, a first datagram with its answer, or one byte each way over an established
 * flow.
 */
export type ConnectionKind = "tcp-connect" | "udp-connect" | "tcp-exchange" | "udp-exchange";

/** The ends of connections, and the addresses between them. */
export interface Ends {
  readonly client: LabNamespace;
  readonly server: LabNamespace;
  /** The address at which the server listens. */
  readonly listen: string;
  /** The address to which the client connects: the same, or a Service's address. */
  readonly destination: string;
  readonly port: number;
}

/** The program that holds both ends of connections (connection.c says what it measures). */
export class ConnectionProgram {
  readonly #executable: string;

  /**
   * Builds the program with the machine's C compiler.
   *
   * @throws Error with the compiler's output, or when there is no compiler
   */
  constructor(directory: string) {
    this.#executable = path.join(directory, "connection");
    run("cc", ["-O2", "-Wall", "-Wextra", "-Werror", "-o", this.#executable, SOURCE]);
  }

  /** @returns the median of a number of measurements, in microseconds. @throws Error when a packet was lost */
  measure(kind: ConnectionKind, count: number, { client, server, listen, destination, port }: Ends): number {
    const args = [kind, String(count), client.path, server.path, listen, destination, String(port)];
    const [median] = run(this.#executable, args).split(" ");
    return Number(median) / NANOSECONDS_PER_MICROSECOND;
  }
}

function run(file: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(file, args, { encoding: "utf8", timeout: LIMIT_MILLISECONDS });
  if (status === 0) return stdout;
  throw new Error(`${path.basename(file)} ${args.join(" ")}: ${error?.message ?? stderr.trim()}`);
}
