import type { Part, Step } from "../../cni/node_state/observed.ts";
import { stepText } from "../../cni/node_state/difference.ts";
import type { Problem } from "../../cni/node_state/problems.ts";
import { nodeNamed, type NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";

/** The prefix of status lines about the node's state, which the doctor checks itself. */
export const NODE_STATE = "node";

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
  readonly #problems = new Map<string, readonly Problem[]>();
  #reported: ReadonlySet<string> = new Set();

  constructor(parts: NodeStateReportParts) {
    this.#parts = parts;
  }

  /** The number of repairs, by part. */
  get repairs(): ReadonlyMap<Counted, number> {
    return this.#repairs;
  }

  get problems(): readonly Problem[] {
    return [...this.#problems.values()].flat();
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
  tell(subject: string, problems: readonly Problem[]): void {
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
