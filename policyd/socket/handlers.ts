import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { AttachmentName, PolicydReply, PolicydRequest, PolicydStatus } from "../../ipam/policyd_messages.ts";
import { refusalCode } from "../../ipam/policyd_messages.ts";
import type { DrawbridgeError } from "../../kernel/error.ts";
import type { ReportPage } from "../policy/status/policy_report.ts";

/** Who does what is asked for over the socket. A DrawbridgeError becomes a refusal; anything else is a bug. */
export interface RequestHandlers {
  /**
   * Settles when the pod's packets are judged as its policies say.
   *
   * @param wait milliseconds after which who asked has gone; what is not done by then is refused with the reason
   */
  register(attachment: AttachmentRecord, wait?: number): Promise<void>;
  /** Settles when nothing of the pod is left; at once, with false, for an attachment that is not known. */
  unregister(attachment: AttachmentName): Promise<boolean>;
  status(): PolicydStatus;
  /** Settles when the files of the flow ledger have all that was seen. @throws DrawbridgeError ERR_CONFIGURATION without a ledger */
  writeFlows(): Promise<void>;
  /** Which policies are in force, a part at a time. @param after the last policy of the part before */
  policies(after: string | undefined): Promise<ReportPage>;
}

/** Does what a request asks for. @throws what the handler throws */
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

/** The reply to a request that was not carried out. */
export function refusal(error: DrawbridgeError): PolicydReply {
  const code = refusalCode(error.code);
  const message = error.message.slice(0, LONGEST_REASON);
  return { type: "refused", isTemporary: isTemporary(error), message, ...(code === undefined ? {} : { code }) };
}

/** Whether the same request may succeed later. What a client got wrong it will get wrong again. */
export function isTemporary({ code }: DrawbridgeError): boolean {
  return code !== "ERR_PROTOCOL" && code !== "ERR_CONFIGURATION" && code !== "ERR_HOST_PORT_TAKEN";
}

/** Six bytes a character at most in JSON: below the longest message. */
const LONGEST_REASON = 4096;
