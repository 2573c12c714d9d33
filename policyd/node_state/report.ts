import type { Part, Step } from "../../cni/node_state/observed.ts";
import { stepText } from "../../cni/node_state/difference.ts";
import type { Problem } from "../../cni/node_state/problems.ts";
import { NodeProblems, type NodeReporter } from "../events/node_problems.ts";
import { type ProblemCode, problemLine } from "../problems/problem.ts";

/** The prefix of a line of the status about a problem of the node that cuts no pod off. */
export const NODE_STATE = "node";

/** A problem of the node; without a code it is one of the bridge and the pods' ports. */
export interface NodeProblem extends Problem {
  readonly code?: ProblemCode;
}

/** The subjects that repairs are counted by: those in the kernel, and the reservations of pods' addresses. */
type Counted = Part | "reservation";

const MOST_STEPS_IN_A_LINE = 5;

/** Reports repairs, and problems that could not be repaired, each once while it lasts. */
export class NodeStateReport {
  readonly #reporter: NodeReporter;
  readonly #repairs = new Map<Counted, number>();
  readonly #problems = new Map<string, readonly NodeProblem[]>();
  readonly #reported: NodeProblems;

  constructor(reporter: NodeReporter) {
    this.#reporter = reporter;
    this.#reported = new NodeProblems(
      reporter,
      "NodeStateProblem",
      "the node's network state is not as pods need it",
      "error",
    );
  }

  /** The number of repairs, by part. */
  get repairs(): ReadonlyMap<Counted, number> {
    return this.#repairs;
  }

  get problems(): readonly NodeProblem[] {
    return [...this.#problems.values()].flat();
  }

  /** Returns the lines of the status. */
  lines(): readonly string[] {
    return this.problems.map(({ code, text, isCut }) => {
      const known = code ?? (isCut ? "node-state" : undefined);
      return known === undefined ? `${NODE_STATE}: ${text}` : problemLine(known, text);
    });
  }

  /** Counts repairs of the node's files; the caller logs them. */
  restored(part: Counted, count: number): void {
    this.#repairs.set(part, (this.#repairs.get(part) ?? 0) + count);
  }

  /** @param isOften whether another program keeps undoing the repairs: the contest is then reported, not each repair */
  repaired(bridge: string, steps: readonly Step[], isOften: boolean): void {
    if (steps.length === 0) return;
    for (const { part } of steps) this.restored(part, 1);
    const texts = steps.slice(0, MOST_STEPS_IN_A_LINE).map(stepText).join("; ");
    const fields = { bridge, steps: steps.length, what: texts };
    const { logger } = this.#reporter;
    if (isOften) logger.debug("the node's network state is repaired again", fields);
    else logger.warn("another program has changed the node's network state; it is repaired", fields);
  }

  /** Replaces the reported problems of a subject. */
  tell(subject: string, problems: readonly NodeProblem[]): void {
    if (problems.length === 0) this.#problems.delete(subject);
    else this.#problems.set(subject, problems);
    this.#reported.set(this.problems.map(({ text }) => text));
  }
}
