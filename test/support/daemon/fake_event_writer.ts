import type { ClusterEvent } from "../../../policyd/events/event.ts";
import type { EventWriter, Outcome } from "../../../policyd/events/writer.ts";

/** A writer with prepared outcomes; Events beyond these are created. */
export class FakeEventWriter implements EventWriter {
  /** The Events, in order. */
  readonly asked: ClusterEvent[] = [];
  readonly outcomes: Outcome[] = [];
  isStopped = false;

  create(event: ClusterEvent): Promise<Outcome> {
    this.asked.push(event);
    return Promise.resolve(this.outcomes.shift() ?? { type: "created" });
  }

  stop(): void {
    this.isStopped = true;
  }
}
