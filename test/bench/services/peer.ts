import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import type { LabNamespace } from "../../lab/namespace.ts";
import { startProgram, waitFor } from "../../lab/posix_spawn.ts";
import { demandSuccess } from "../contestant.ts";
import type { BenchService } from "./cluster.ts";
import { baseText, endpointsText, serviceText } from "./kube_proxy_layout.ts";

/** The costs of a load. */
export interface Load {
  /** Milliseconds by the clock. */
  readonly whole: number;
  /** Milliseconds of a processor. */
  readonly processor: number;
}

/**
 * kube-proxy's layout on a node of its own, loaded by `nft -f -` as kube-proxy does. Only that program is
 * measured, with its text ready; kube-proxy's own work before and beside it (it lists all chains in every sync) is
 * omitted.
 */
export class Peer {
  readonly namespace: LabNamespace;

  constructor(namespace: LabNamespace) {
    this.namespace = namespace;
  }

  /** Writes everything. @param scratch a directory for the text */
  load(services: readonly BenchService[], scratch: string): Load {
    const file = (suffix: string): string => path.join(scratch, `nft.${suffix}`);
    const text = baseText() + services.map(serviceText).join("");
    writeFileSync(file("stdin"), text);
    const program = {
      file: "/usr/bin/env",
      args: ["nft", "-f", "-"],
      environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
      stdin: file("stdin"),
      stdout: file("stdout"),
      stderr: file("stderr"),
    };
    const start = performance.now();
    const { exitCode, cpuMilliseconds } = waitFor(startProgram(this.namespace, program));
    const whole = performance.now() - start;
    demandSuccess(program, exitCode);
    return { whole, processor: cpuMilliseconds };
  }

  /** Adds a Service. @returns milliseconds */
  add(service: BenchService): number {
    return runNft(this.namespace, serviceText(service));
  }

  /** Replaces a Service's endpoints. @returns milliseconds */
  replaceEndpoints(after: BenchService): number {
    return runNft(this.namespace, endpointsText(after));
  }
}

/**
 * Runs `nft -f -`.
 *
 * @returns milliseconds
 * @throws Error with nft's output when it fails
 */
export function runNft(namespace: LabNamespace, input: string): number {
  return namespace.inside(() => {
    const start = performance.now();
    const { status, stderr, error } = spawnSync("nft", ["-f", "-"], { input, encoding: "utf8" });
    const milliseconds = performance.now() - start;
    if (status === 0) return milliseconds;
    throw new Error(`nft -f -: ${error?.message ?? stderr.trim().slice(0, 400)}`);
  });
}
