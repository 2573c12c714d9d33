import type { DrawbridgeError } from "../error.ts";
import type { NotificationSource } from "./source.ts";

/** A command to the reader of event sockets. */
export type Command =
  | { readonly kind: "open"; readonly id: number; readonly source: NotificationSource }
  | { readonly kind: "close"; readonly id: number }
  | { readonly kind: "stop" };

/** A report of the reader. */
export type Report =
  | { readonly kind: "opened" | "overrun"; readonly id: number }
  | { readonly kind: "datagrams"; readonly id: number; readonly datagrams: readonly Uint8Array[] }
  /** The source is closed, or was never opened. */
  | { readonly kind: "failed"; readonly id: number; readonly error: DrawbridgeError };
