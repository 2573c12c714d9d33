import type { Machine } from "../machine.ts";
import { nodeNamed, type Reason } from "./notice.ts";

/** The parts that report a problem of this node. */
export type NodeReporter = Pick<Machine, "logger" | "events" | "nodeName">;

/** The present problems of this node with one subject, each reported once while it lasts: in the log and as an Event. */
export class NodeProblems {
  readonly #reporter: NodeReporter;
  readonly #reason: Reason;
  readonly #message: string;
  readonly #level: "warn" | "error";
  #present: readonly string[] = [];

  /** @param message the message of the log's lines, which have the problem as `reason` */
  constructor(reporter: NodeReporter, reason: Reason, message: string, level: "warn" | "error" = "warn") {
    this.#reporter = reporter;
    this.#reason = reason;
    this.#message = message;
    this.#level = level;
  }

  get present(): readonly string[] {
    return this.#present;
  }

  /** Replaces all problems, and reports those that are new. */
  set(problems: readonly string[]): void {
    const { logger, events, nodeName } = this.#reporter;
    const before = new Set(this.#present);
    this.#present = problems;
    for (const problem of problems) {
      if (before.has(problem)) continue;
      logger[this.#level](this.#message, { reason: problem });
      events.tell({ regarding: nodeNamed(nodeName), reason: this.#reason, note: problem });
    }
  }
}
