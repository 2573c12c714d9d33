import type { Part, Step } from "../../cni/node_state/observed.ts";
import { stepText } from "../../cni/node_state/difference.ts";
import type { Problem } from "../../cni/node_state/problems.ts";
import type { NoticeSink } from "../events/notice.ts";
import { nodeNamed } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";

/** By what a line of the status begins that is about the node's state: the doctor looks at that itself. */
export const NODE_STATE = "node";

/** The subjects by which repairs are counted: of the kernel, and the reservations of pods' addresses. */
type Counted = Part | "reservation";

const MOST_STEPS_IN_A_LINE = 5;

export interface NodeStateReportParts {
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly nodeName: string;
}

/** Says what was repaired and what could not be, each problem once for as long as it lasts. */
export class NodeStateReport {
  readonly #parts: NodeStateReportParts;
  readonly #repairs = new Map<Counted, number>();
  readonly #problems = new Map<string, readonly Problem[]>();
  #told: ReadonlySet<string> = new Set();

  constructor(parts: NodeStateReportParts) {
    this.#parts = parts;
  }

  /** How many repairs there were, by what they were about. */
  get repairs(): ReadonlyMap<Counted, number> {
    return this.#repairs;
  }

  get problems(): readonly Problem[] {
    return [...this.#problems.values()].flat();
  }

  /** Counts what was put back of the node's files; whoever has done it logs it. */
  restored(part: Counted, count: number): void {
    this.#repairs.set(part, (this.#repairs.get(part) ?? 0) + count);
  }

  /** @param isOften whether another program keeps undoing it, which is a problem then, and no line for each repair */
  repaired(bridge: string, steps: readonly Step[], isOften: boolean): void {
    if (steps.length === 0) return;
    for (const { part } of steps) this.restored(part, 1);
    const texts = steps.slice(0, MOST_STEPS_IN_A_LINE).map(stepText).join("; ");
    const fields = { bridge, steps: steps.length, what: texts };
    if (isOften) this.#parts.logger.debug("the node's network state is repaired again", fields);
    else this.#parts.logger.warn("another program has changed the node's network state; it is repaired", fields);
  }

  /** Reports all problems of a subject. */
  tell(subject: string, problems: readonly Problem[]): void {
    const { logger, events, nodeName } = this.#parts;
    if (problems.length === 0) this.#problems.delete(subject);
    else this.#problems.set(subject, problems);
    for (const { text } of problems) {
      if (this.#told.has(text)) continue;
      logger.error("the node's network state is not as pods need it", { reason: text });
      events.tell({ regarding: nodeNamed(nodeName), reason: "NodeStateProblem", note: text });
    }
    this.#told = new Set(this.problems.map(({ text }) => text));
  }
}
