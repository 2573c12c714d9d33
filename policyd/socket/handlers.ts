import type { AttachmentRecord } from "../../attachment/attachment.ts";
import {
  type AttachmentName,
  type PolicydReply,
  type PolicydRequest,
  type PolicydStatus,
  refusalCode,
} from "../../attachment/policyd_messages.ts";
import type { DrawbridgeError } from "../../kernel/error.ts";
import type { ReportPage } from "../policies/status/policy_report.ts";

/** Carries out the requests of the socket. A DrawbridgeError becomes a refusal; any other error is a bug. */
export interface RequestHandlers {
  /**
   * Resolves when the pod's policies apply to its packets.
   *
   * @param wait milliseconds after which the caller gives up; what is not done by then is refused with the reason
   */
  register(attachment: AttachmentRecord, wait?: number): Promise<void>;
  /** Resolves when nothing of the pod remains; immediately, with false, for an unknown attachment. */
  unregister(attachment: AttachmentName): Promise<boolean>;
  status(): PolicydStatus;
  /** Resolves when the flow ledger is written to its files. @throws DrawbridgeError ERR_CONFIGURATION without one */
  writeFlows(): Promise<void>;
  /** Returns the policies in force, page by page. @param after the last policy of the previous page */
  policies(after: string | undefined): Promise<ReportPage>;
}

/** Carries out a request and returns the reply. @throws what the handler throws */
export async function answer(request: PolicydRequest, handlers: RequestHandlers): Promise<PolicydReply> {
  switch (request.type) {
    case "register":
      await handlers.register(request.attachment, request.wait);
      return { type: "done" };
    case "unregister":
      return { type: "done", isDetached: await handlers.unregister(request.attachment) };
    case "status":
      return { type: "status", status: handlers.status() };
    case "write flows":
      await handlers.writeFlows();
      return { type: "done" };
    case "policies": {
      const { lines, next } = await handlers.policies(request.after);
      return next === undefined ? { type: "policies", lines } : { type: "policies", lines, next };
    }
  }
}

/** Returns the reply to a request that failed. */
export function refusal(error: DrawbridgeError): PolicydReply {
  const code = refusalCode(error.code);
  const message = error.message.slice(0, LONGEST_REASON);
  return { type: "refused", isTemporary: isTemporary(error), message, ...(code === undefined ? {} : { code }) };
}

/** Returns whether the same request may succeed later; a client's own mistake is permanent. */
export function isTemporary({ code }: DrawbridgeError): boolean {
  return code !== "ERR_PROTOCOL" && code !== "ERR_CONFIGURATION" && code !== "ERR_HOST_PORT_TAKEN";
}

/** Characters take at most six bytes in JSON, so this stays below the longest message. */
const LONGEST_REASON = 4096;
