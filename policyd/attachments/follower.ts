import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { AttachmentName } from "../../ipam/policyd_messages.ts";

/**
 * Whether flows of a pod's addresses outlive its change: "none" where a pod comes whose addresses have none, or goes and has its
 * own forgotten when its rules are gone.
 */
export type RemainingFlows = "none" | "unknown";

/** What else there is of pods than what binds them to their ports; told by the one who knows which pods are there. */
export interface AttachmentFollower {
  /** Settles when the rules of all that was told by then are wanted: the first batch may be written. */
  prepared(): Promise<void>;
  /** Wants the rules of a pod, as soon as they can be told; one of its names is replaced. */
  attached(attachment: AttachmentRecord, flows: RemainingFlows): void;
  /** Settles when they are in force. @throws DrawbridgeError ERR_UNAVAILABLE when the pod goes before that */
  inForce(name: AttachmentName): Promise<void>;
  /** The pod is gone: nothing can be sent from its port any more. */
  detached(name: AttachmentName, flows: RemainingFlows): void;
}
