import { LONGEST_WAIT } from "./message_frame.ts";
import { expectNetworkName, expectOwner } from "../ipam/owner.ts";
import { DrawbridgeError, type ErrorCode } from "../kernel/error.ts";
import type { AttachmentRecord } from "./attachment.ts";
import { attachmentToJson } from "./attachment_writer.ts";
import { attachmentFromJson, expectString, JsonObject } from "./attachment_decoder.ts";

/**
 * The version of the messages between the plugin and policyd. Each request is answered by one reply, in order.
 *
 * The messages are here because both sides need them and the plugin imports nothing of policyd.
 */
export const MESSAGE_VERSION = 1;

/** The names of an attachment, which also name its record. */
export interface AttachmentName {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
}

export type PolicydRequest =
  /**
   * A pod is being attached: answered when its policies are in force. `wait`: milliseconds that the client waits for
   * it.
   */
  | { readonly type: "register"; readonly attachment: AttachmentRecord; readonly wait?: number }
  /** A pod is being detached: answered when nothing of it is left. An unknown pod is not an error. */
  | { readonly type: "unregister"; readonly attachment: AttachmentName }
  | { readonly type: "status" }
  /** Answered when the files of the flow ledger contain all flows seen. */
  | { readonly type: "write flows" }
  /** Asks for the policies in force, one part at a time. `after`: the last policy of the previous part. */
  | { readonly type: "policies"; readonly after?: string };

export type PolicydReply =
  /** `isDetached`: the detached pod was known, and its link and the neighbours on the bridge are gone, too. */
  | { readonly type: "done"; readonly isDetached?: boolean }
  | { readonly type: "status"; readonly status: PolicydStatus }
  /** A line of JSON for each policy. `next`: the last of them if more follow. */
  | { readonly type: "policies"; readonly lines: string; readonly next?: string }
  /** Nothing was done. `isTemporary`: the same request may succeed later. `code`: the error for the runtime. */
  | {
      readonly type: "refused";
      readonly isTemporary: boolean;
      readonly message: string;
      readonly code?: RefusalCode;
    };

const REFUSAL_CODES = ["ERR_HOST_PORT_TAKEN", "ERR_POD_UNKNOWN"] as const satisfies readonly ErrorCode[];

/** The refusals that have their own code over the socket. */
export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** Returns the code if a refusal can carry it; undefined for any other text. */
export function refusalCode(code: string): RefusalCode | undefined {
  return REFUSAL_CODES.find((known) => known === code);
}

/** The status of policyd. */
export interface PolicydStatus {
  /** The version of Drawbridge. */
  readonly version: string;
  readonly nodeName: string;
  /** Its address between nodes, and why it is that one; absent where it is not known. */
  readonly nodeAddress?: string;
  readonly uptimeSeconds: number;
  /** Whether every object has been read once; nothing is programmed before. */
  readonly isSynced: boolean;
  /** The number of objects of each kind that are in force. */
  readonly objects: Readonly<Record<string, number>>;
  readonly attachments: number;
  /** The number of problems; `problems` lists the first ones. */
  readonly problemCount: number;
  readonly problems: readonly string[];
}

export function requestToJson(request: PolicydRequest): object {
  return request.type === "register"
    ? { version: MESSAGE_VERSION, ...request, attachment: attachmentToJson(request.attachment) }
    : { version: MESSAGE_VERSION, ...request };
}

export function replyToJson(reply: PolicydReply): object {
  return { version: MESSAGE_VERSION, ...reply };
}

/**
 * Reads a request.
 *
 * @throws DrawbridgeError ERR_PROTOCOL for any other text, naming the field, its value and the expectation
 */
export function parseRequest(text: string): PolicydRequest {
  return parseMessage(text, (message): PolicydRequest => {
    const type = message.string("type");
    switch (type) {
      case "register":
        return Object.freeze({
          type,
          attachment: attachmentFromJson(message.get("attachment")),
          ...(message.get("wait") === undefined ? {} : { wait: message.integer("wait", 1, LONGEST_WAIT) }),
        });
      case "unregister":
        return Object.freeze({ type, attachment: readName(message.object("attachment")) });
      case "status":
      case "write flows":
        return Object.freeze({ type });
      case "policies":
        return Object.freeze(message.get("after") === undefined ? { type } : { type, after: message.string("after") });
      default:
        throw malformed(
          `type: ${JSON.stringify(type.slice(0, 40))}; expected register, unregister, status, write flows or policies`,
        );
    }
  });
}

/** Reads a reply. @throws DrawbridgeError ERR_PROTOCOL as {@link parseRequest} */
export function parseReply(text: string): PolicydReply {
  return parseMessage(text, (message): PolicydReply => {
    const type = message.string("type");
    switch (type) {
      case "done":
        return message.get("isDetached") === undefined ? { type } : { type, isDetached: message.boolean("isDetached") };
      case "status":
        return { type, status: readStatus(message.object("status")) };
      case "policies": {
        const lines = message.string("lines");
        return message.get("next") === undefined ? { type, lines } : { type, lines, next: message.string("next") };
      }
      case "refused":
        return readRefusal(message);
      default:
        throw malformed(`type: ${JSON.stringify(type.slice(0, 40))}; expected done, status, policies or refused`);
    }
  });
}

function parseMessage<T>(text: string, read: (message: JsonObject) => T): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(`no JSON in ${text.length} characters; expected one object on a line`);
  }
  try {
    const message = new JsonObject(value, "message");
    const version = message.get("version");
    if (version !== MESSAGE_VERSION) {
      throw malformed(
        `version: ${typeof version === "number" ? version : "no number"}; expected ${MESSAGE_VERSION}: the plugin and policyd must be of one release`,
      );
    }
    return read(message);
  } catch (error) {
    if (error instanceof DrawbridgeError && error.code !== "ERR_PROTOCOL") throw malformed(error.message);
    throw error;
  }
}

function readName(object: JsonObject): AttachmentName {
  const name = {
    network: expectNetworkName(object.string("network")),
    containerId: object.string("containerId"),
    ifname: object.string("ifname"),
  };
  expectOwner(name);
  return Object.freeze(name);
}

function readRefusal(message: JsonObject): PolicydReply {
  const refusal = {
    type: "refused",
    isTemporary: message.boolean("isTemporary"),
    message: message.string("message"),
  } as const;
  if (message.get("code") === undefined) return refusal;
  const text = message.string("code");
  const code = refusalCode(text);
  if (code !== undefined) return { ...refusal, code };
  throw malformed(`code: ${JSON.stringify(text.slice(0, 40))}; expected ${REFUSAL_CODES.join(" or ")} or none`);
}

function readStatus(object: JsonObject): PolicydStatus {
  const counts = object.object("objects");
  return {
    version: object.string("version"),
    nodeName: object.string("nodeName"),
    ...(object.get("nodeAddress") === undefined ? {} : { nodeAddress: object.string("nodeAddress") }),
    uptimeSeconds: object.integer("uptimeSeconds", 0, Number.MAX_SAFE_INTEGER),
    isSynced: object.boolean("isSynced"),
    objects: Object.fromEntries(counts.keys().map((kind) => [kind, counts.integer(kind, 0, Number.MAX_SAFE_INTEGER)])),
    attachments: object.integer("attachments", 0, Number.MAX_SAFE_INTEGER),
    problemCount: object.integer("problemCount", 0, Number.MAX_SAFE_INTEGER),
    problems: object.list("problems").map((problem, index) => expectString(problem, `problems[${index}]`)),
  };
}

function malformed(message: string): DrawbridgeError {
  return new DrawbridgeError("ERR_PROTOCOL", `message: ${message}`);
}
