import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";

/**
 * Whether flows of a pod's addresses may outlive its change. They do not ("none") where a pod comes whose addresses
 * have no flows, or goes and has its flows deleted once its rules are gone.
 */
export type RemainingFlows = "none" | "unknown";

/** Maintains the rules of pods other than those that bind them to their bridge ports. */
export interface AttachmentFollower {
  /** Settles when the desired state has the rules of all pods attached so far: the first batch may be written. */
  prepared(): Promise<void>;
  /** Adds the rules of a pod to the desired state as soon as they are known; replaces a pod with the same names. */
  attached(attachment: AttachmentRecord, flows: RemainingFlows): void;
  /** Settles when a pod's rules are in force. @throws DrawbridgeError ERR_UNAVAILABLE when the pod goes before that */
  inForce(name: AttachmentName): Promise<void>;
  /** Returns what a pod that is not in force yet waits for, in words; undefined where it waits for nothing. */
  awaits?(attachment: AttachmentRecord): string | undefined;
  /** Handles that a pod is gone: nothing can be sent from its port any more. */
  detached(name: AttachmentName, flows: RemainingFlows): void;
}
