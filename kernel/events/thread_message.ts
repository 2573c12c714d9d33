import type { ErrorCode } from "../error.ts";
import type { EventSource } from "./source.ts";

/** What the event thread is told. */
export type Command =
  | { readonly kind: "open"; readonly id: number; readonly source: EventSource }
  | { readonly kind: "close"; readonly id: number }
  | { readonly kind: "stop" };

/** An error as data: its class does not cross threads. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
}

/** What the event thread tells. */
export type Report =
  | { readonly kind: "opened" | "overrun"; readonly id: number }
  | {
      readonly kind: "datagrams";
      readonly id: number;
      readonly datagrams: readonly Uint8Array[];
      readonly cost: number;
    }
  /** The source is closed, or was never opened. */
  | { readonly kind: "failed"; readonly id: number; readonly failure: Failure };

/** What the event thread is made with. */
export interface ThreadInput {
  readonly wakeFd: number;
  readonly memory: SharedArrayBuffer;
  readonly queueBytes: number;
  /** The namespace whose events are meant; the thread's own when undefined. */
  readonly namespacePath: string | undefined;
}

/** Both ends of the channels are ours, so one member tells. */
export function isCommand(value: unknown): value is Command {
  return typeof value === "object" && value !== null && "kind" in value;
}

export function isReport(value: unknown): value is Report {
  return typeof value === "object" && value !== null && "kind" in value;
}

export function isThreadInput(value: unknown): value is ThreadInput {
  return typeof value === "object" && value !== null && "wakeFd" in value;
}
