import { nodeNamed, type NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { Step } from "./route_kernel/kernel_state.ts";
import type { PassSchedule } from "../lib/pass_schedule.ts";

export interface RouteReportParts {
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly nodeName: string;
}

/** Logs changes of the routes, and reports each problem once as long as it lasts. */
export class RouteReport {
  readonly #parts: RouteReportParts;
  readonly #pace: PassSchedule;
  #problems: readonly string[] = [];
  #reported: ReadonlySet<string> = new Set();

  constructor(parts: RouteReportParts, pace: PassSchedule) {
    this.#parts = parts;
    this.#pace = pace;
  }

  /** The problems last reported. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Logs the steps that changed the kernel. */
  done(steps: readonly Step[]): void {
    const { logger } = this.#parts;
    if (steps.length === 0) return;
    const isOften = this.#pace.changed();
    const removed = steps.filter(({ type }) => type.startsWith("delete")).length;
    const fields = { set: steps.length - removed, removed };
    if (isOften) logger.debug("routes changed", fields);
    else logger.info("routes changed", fields);
  }

  /** Reports the new ones among all current problems. */
  tell(problems: readonly string[]): void {
    const { logger, events, nodeName } = this.#parts;
    for (const problem of problems) {
      if (this.#reported.has(problem)) continue;
      logger.warn("routes are not all in the desired state", { reason: problem });
      events.tell({ regarding: nodeNamed(nodeName), reason: "RoutesProblem", note: problem });
    }
    this.#problems = problems;
    this.#reported = new Set(problems);
  }
}
