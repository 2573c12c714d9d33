import type { Clock } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import type { Lifecycle } from "../component.ts";
import type { NodeProblem, NodeStateReport } from "../node_state/report.ts";
import type { Check, MachineFacts } from "../problems/check.ts";
import { diagnose } from "../problems/diagnose.ts";
import { forwardPolicy } from "./firewall.ts";
import { kernelFeatures, kernelVersion } from "./kernel.ts";
import { kubeProxy } from "./kube_proxy.ts";
import { clock, connectionTracking } from "./limits.ts";
import { EXAMINED, type ExaminedCode, remarkText } from "../problems/problem.ts";
import { tunnel } from "./tunnel.ts";

/** The checks of the doctor that the daemon runs as well, by the codes of their problems. */
export const EXAMINED_CHECKS = {
  clock,
  conntrack: connectionTracking,
  "foreign-drops": forwardPolicy,
  "kernel-features": kernelFeatures,
  "kernel-version": kernelVersion,
  "kube-proxy": kubeProxy,
  tunnel,
} as const satisfies Readonly<Record<ExaminedCode, Check>>;

/** The checks of which every finding is a problem. */
const ALL_SEVERITIES: ReadonlySet<string> = new Set(["kube-proxy", "kernel-features"]);

export interface ExaminationParts {
  readonly facts: () => MachineFacts;
  readonly report: Pick<NodeStateReport, "tell">;
  readonly clock: Clock;
  /** Milliseconds between two examinations. */
  readonly period: number;
}

/** Reports what the doctor would find in the machine (DOCTOR-18), at the start and after each period. */
export class Examination implements Lifecycle {
  readonly #loop: ControlLoop;

  constructor({ facts, report, clock: time, period }: ExaminationParts) {
    const pass = (): number => {
      report.tell("examination", examined(facts()));
      return period;
    };
    this.#loop = new ControlLoop({ clock: time, pass });
  }

  begin(): void {
    this.#loop.run();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }
}

/** Returns the problems that the doctor would find: all errors, kube-proxy's rules, and what the kernel lacks. */
export function examined(facts: MachineFacts): readonly NodeProblem[] {
  return EXAMINED.flatMap((code) =>
    diagnose(facts, [EXAMINED_CHECKS[code]])
      .findings.filter(({ severity }) => severity === "error" || ALL_SEVERITIES.has(code))
      .map((remark) => ({ code, text: remarkText(remark), isCut: false })),
  );
}
