import { writeFileSync } from "node:fs";
import path from "node:path";
import type { LabNamespace } from "../../lab/namespace.ts";
import { startProgram, waitFor } from "../../lab/posix_spawn.ts";
import { demandSuccess } from "../contestant.ts";

/** The time of a step, in milliseconds: by the clock and of a processor. */
export interface Spent {
  readonly whole: number;
  readonly processor: number;
}

export const NOTHING: Spent = { whole: 0, processor: 0 };

export function plus(a: Spent, b: Spent): Spent {
  return { whole: a.whole + b.whole, processor: a.processor + b.processor };
}

/**
 * The program nft in a namespace. Only its process is measured, from its start to its end, with its text ready in a
 * file in memory or on the disk, where `scratch` is.
 */
export class NftProgram {
  readonly namespace: LabNamespace;
  readonly #scratch: string;

  constructor(namespace: LabNamespace, scratch: string) {
    this.namespace = namespace;
    this.#scratch = scratch;
  }

  /** Runs `nft -f -`. @throws Error with its output when it fails */
  load(text: string): Spent {
    return this.#run(["-f", "-"], text);
  }

  /** Makes nft list something, and discards the listing. */
  list(...what: readonly string[]): Spent {
    return this.#run(["--json", "list", ...what], "");
  }

  #run(args: readonly string[], text: string): Spent {
    const file = (suffix: string): string => path.join(this.#scratch, `policy-nft.${suffix}`);
    writeFileSync(file("stdin"), text);
    const program = {
      file: "/usr/bin/env",
      args: ["nft", ...args],
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
}
