import { PROTOCOL_OF } from "../../objects/protocol.ts";
import type { AttachmentRecord, PortMapping } from "../../attachment/attachment.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import { attachmentKey } from "../attachments/registry.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { portKey, type ProtectedPort } from "../../objects/socket_refusal.ts";

/** A host port that a pod requests but does not get. */
interface RefusedHostPort {
  readonly mapping: PortMapping;
  readonly owner: string;
}

/**
 * Decides which host ports no pod gets, since programs of the node listen there (CLAIM-03). The pod starts without such
 * a port and gets its others: a port of the node's own programs never becomes free, and an Event informs the pod's
 * owner.
 *
 * Protected sockets of single addresses need no check here, since no rule translates connections to them.
 */
export class HostPortRefusals {
  readonly #owners: ReadonlyMap<string, string>;
  readonly #logger: Logger;
  readonly #events: NoticeSink;
  /** The number of refused ports of each attachment, by its key. */
  readonly #refused = new Map<string, number>();

  /** @param ports the ports protected on all addresses of nodes */
  constructor(ports: readonly ProtectedPort[], logger: Logger, events: NoticeSink) {
    this.#owners = new Map(ports.map(({ protocol, port, owner }) => [portKey(protocol, port), owner]));
    this.#logger = logger;
    this.#events = events;
  }

  /** Returns an attachment with the host ports that it gets; the same object where it gets all. */
  served(attachment: AttachmentRecord): AttachmentRecord {
    const refused = this.#refusedOf(attachment);
    if (refused.length === 0) return attachment;
    const mappings = new Set(refused.map(({ mapping }) => mapping));
    return { ...attachment, portMappings: attachment.portMappings.filter((mapping) => !mappings.has(mapping)) };
  }

  /** Reports the host ports that an attachment does not get, once in its lifetime. */
  attached(attachment: AttachmentRecord): void {
    const key = attachmentKey(attachment);
    const refused = this.#refusedOf(attachment);
    const { pod, containerId } = attachment;
    if (refused.length > 0 && !this.#refused.has(key)) {
      for (const one of refused) {
        const note = `host port ${textOf(one)}: the pod is not reached there; all its other ports are published`;
        this.#logger.warn(
          "host port not published",
          {
            pod: pod && `${pod.namespace}/${pod.name}`,
            containerId,
            reason: note,
          },
          pod?.namespace,
        );
        if (pod === undefined) continue;
        const regarding = { kind: "Pod", key: `${pod.namespace}/${pod.name}`, uid: pod.uid } as const;
        this.#events.tell({ regarding, reason: "HostPortNotServed", note: `Pod ${regarding.key}: ${note}` });
      }
    }
    if (refused.length === 0) this.#refused.delete(key);
    else this.#refused.set(key, refused.length);
  }

  /** Forgets an attachment that is gone. */
  detached(attachment: AttachmentRecord): void {
    this.#refused.delete(attachmentKey(attachment));
  }

  /** The number of host ports refused now. */
  get count(): number {
    return [...this.#refused.values()].reduce((sum, count) => sum + count, 0);
  }

  #refusedOf({ portMappings, policyd: rules }: AttachmentRecord): readonly RefusedHostPort[] {
    // The plugin works without a daemon here and has already published them in its own tables.
    if (rules === undefined) return [];
    return portMappings.flatMap((mapping) => {
      const owner = this.#owners.get(portKey(PROTOCOL_OF[mapping.protocol], mapping.hostPort));
      return owner === undefined ? [] : [{ mapping, owner }];
    });
  }
}

function textOf({ mapping: { hostPort, protocol, hostIp }, owner }: RefusedHostPort): string {
  const where = hostIp === undefined ? "" : ` of ${formatAddress(hostIp)}`;
  return `${hostPort}/${protocol}${where} is protected for ${owner}`;
}
