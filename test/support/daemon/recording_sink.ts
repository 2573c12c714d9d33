import type { ObjectChange } from "../../../objects/model.ts";
import type { ObjectSink } from "../../../policyd/sources/object_source.ts";

/** A sink that records its calls, and the objects in force. */
export class RecordingSink implements ObjectSink {
  readonly objects = new Map<string, Extract<ObjectChange, { type: "set" }>["object"]>();
  readonly reported: string[] = [];
  readonly problems: string[] = [];
  readonly sourceProblems: string[] = [];
  readonly notices: string[] = [];
  isSynced = false;

  changed(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      const name = `${change.kind} ${change.key}`;
      this.reported.push(`${change.type} ${name}`);
      if (change.type === "set") this.objects.set(name, change.object);
      else this.objects.delete(name);
    }
  }

  synced(): void {
    this.isSynced = true;
    this.reported.push("synced");
  }

  problem(message: string): void {
    this.problems.push(message);
  }

  sourceProblem(message: string): void {
    this.sourceProblems.push(message);
  }

  noticed(message: string): void {
    this.notices.push(message);
  }
}
