import type { NoticeSink } from "../events/notice.ts";
import { nodeNamed } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { Step } from "./kernel_state.ts";
import type { Pace } from "./pace.ts";

export interface RouteReportParts {
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly nodeName: string;
}

/** Tells people what was done to the routes, and each problem once for as long as it lasts. */
export class RouteReport {
  readonly #parts: RouteReportParts;
  readonly #pace: Pace;
  #problems: readonly string[] = [];
  #told: ReadonlySet<string> = new Set();

  constructor(parts: RouteReportParts, pace: Pace) {
    this.#parts = parts;
    this.#pace = pace;
  }

  /** What is not as it should be, as last told. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Tells what was changed in the kernel. */
  done(steps: readonly Step[]): void {
    const { logger } = this.#parts;
    if (steps.length === 0) return;
    const isOften = this.#pace.changed();
    const removed = steps.filter(({ type }) => type.startsWith("delete")).length;
    const fields = { set: steps.length - removed, removed };
    if (isOften) logger.debug("routes changed", fields);
    else logger.info("routes changed", fields);
  }

  /** Tells what is not as it should be now, all of it. */
  tell(problems: readonly string[]): void {
    const { logger, events, nodeName } = this.#parts;
    for (const problem of problems) {
      if (this.#told.has(problem)) continue;
      logger.warn("routes are not all as they should be", { reason: problem });
      events.tell({ regarding: nodeNamed(nodeName), reason: "RoutesProblem", note: problem });
    }
    this.#problems = problems;
    this.#told = new Set(problems);
  }
}
