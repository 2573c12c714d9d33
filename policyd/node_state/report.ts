import type { Part, Step } from "../../cni/node_state/observed.ts";
import { stepText } from "../../cni/node_state/difference.ts";
import type { Problem } from "../../cni/node_state/problems.ts";
import { type ProblemCode, problemLine } from "../problems/problem.ts";
import { nodeNamed, type NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";

/** The prefix of lines of the status about the node's state that cut no pod off. */
export const NODE_STATE = "node";

/** A problem of the node; without a code it is one of the bridge and the pods' ports. */
export interface NodeProblem extends Problem {
  readonly code?: ProblemCode;
}

/** The subjects that repairs are counted by: those in the kernel, and the reservations of pods' addresses. */
type Counted = Part | "reservation";

const MOST_STEPS_IN_A_LINE = 5;

export interface NodeStateReportParts {
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly nodeName: string;
}

/** Reports repairs, and problems that could not be repaired, each once while it lasts. */
export class NodeStateReport {
  readonly #parts: NodeStateReportParts;
  readonly #repairs = new Map<Counted, number>();
  readonly #problems = new Map<string, readonly NodeProblem[]>();
  #reported: ReadonlySet<string> = new Set();

  constructor(parts: NodeStateReportParts) {
    this.#parts = parts;
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
    if (isOften) this.#parts.logger.debug("the node's network state is repaired again", fields);
    else this.#parts.logger.warn("another program has changed the node's network state; it is repaired", fields);
  }

  /** Replaces the reported problems of a subject. */
  tell(subject: string, problems: readonly NodeProblem[]): void {
    const { logger, events, nodeName } = this.#parts;
    if (problems.length === 0) this.#problems.delete(subject);
    else this.#problems.set(subject, problems);
    for (const { text } of problems) {
      if (this.#reported.has(text)) continue;
      logger.error("the node's network state is not as pods need it", { reason: text });
      events.tell({ regarding: nodeNamed(nodeName), reason: "NodeStateProblem", note: text });
    }
    this.#reported = new Set(this.problems.map(({ text }) => text));
  }
}
