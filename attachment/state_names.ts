import { ORIGINAL_SETTINGS } from "./original_settings.ts";

/** A file or directory in the state directory. */
interface StateName {
  readonly isFile?: true;
  /** Whether a DEL needs it. */
  readonly isForPods?: true;
  /** Whether the daemon restores its files as it found them. */
  readonly isKept?: true;
}

/** The names of all that plugin and daemon put into the state directory. Failures of ADDs are recorded again by the next. */
export const STATE_NAMES: ReadonlyMap<string, StateName> = new Map<string, StateName>([
  ["attachments", { isForPods: true }],
  ["delegated", { isForPods: true, isKept: true }],
  ["delegations", { isForPods: true, isKept: true }],
  ["ended", { isKept: true }],
  ["failures", {}],
  ["nftables.lock", { isForPods: true, isFile: true }],
  ["policies-enforced", { isFile: true }],
  ["policyd.sock", { isFile: true }],
  ["policyd.sock.lock", { isFile: true }],
  [ORIGINAL_SETTINGS, { isKept: true }],
]);
