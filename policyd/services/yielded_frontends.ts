import { attempt } from "../../kernel/error.ts";
import { type Address, familyOf } from "../../kernel/ip/address.ts";
import type { Protocol, Service } from "../../objects/model.ts";
import { type PortClaim, portKey } from "../../objects/socket_refusal.ts";
import type { FrontendRefusals } from "../protection/socket_index.ts";
import { type FrontendId, frontendId } from "./elements/arbitration.ts";
import { everyClaim } from "./elements/frontends.ts";
import type { CompileContext } from "./rules/context.ts";

/** A socket of a program of the node that receives from anywhere, or a pod's host port. */
export interface NodeSocket {
  readonly protocol: Protocol;
  readonly port: number;
  /** Undefined for all addresses of the node, "IPv4" for all of that family. */
  readonly address: Address | "IPv4" | undefined;
  /** The name of its owner, for messages. */
  readonly owner: string;
}

/** The addresses of a node, and its sockets by {@link portKey}. */
export interface NodeSockets {
  readonly addresses: ReadonlySet<Address>;
  readonly sockets: ReadonlyMap<string, readonly NodeSocket[]>;
}

/** The parts of the machine that {@link YieldedFrontends} read. */
export interface YieldedParts {
  /** Returns the present addresses and sockets of the node. @throws DrawbridgeError as for lack of a descriptor */
  readonly node: () => NodeSockets;
  /** Returns the frontends that an earlier daemon has left in force. */
  readonly inForce: () => ReadonlySet<FrontendId>;
}

/** Returns who has a port at an address of the node; undefined where nobody has it, and at others' addresses. */
export function holderOf(
  address: Address,
  protocol: Protocol,
  port: number,
  { addresses, sockets }: NodeSockets,
): string | undefined {
  if (!addresses.has(address)) return undefined;
  const all = familyOf(address) === 4 ? "IPv4" : address;
  const isThere = (one: NodeSocket): boolean => [undefined, all, address].includes(one.address);
  return sockets.get(portKey(protocol, port))?.find(isThere)?.owner;
}

/** Returns who has a port at an address of the node, as {@link holderOf}. */
type OwnerOf = (address: Address, protocol: Protocol, port: number) => string | undefined;

/** The owner of a port as long as the node's sockets cannot be read. */
const UNKNOWN = "an unknown program, as the node's sockets could not be read yet,";

/**
 * The external IPs at addresses of this node that Services do not get, since a program or a pod's host port had the port
 * when the Service came (CLAIM-06). A decision holds while the Service claims the frontend, also over a restart of the
 * daemon: what comes later takes nothing from a Service.
 */
export class YieldedFrontends {
  readonly #parts: YieldedParts;
  /** The owners of frontends, by the Service that does not get them. */
  readonly #owners = new Map<string, ReadonlyMap<FrontendId, string>>();
  /** Kept beside, since every change of any Service asks for them. */
  readonly #undecided = new Set<string>();
  /** Undefined until it is needed. */
  #inForce: ReadonlySet<FrontendId> | undefined;

  constructor(parts: YieldedParts) {
    this.#parts = parts;
  }

  /** The Services that do not get new frontends before it is known who has the ports. */
  get undecided(): ReadonlySet<string> {
    return this.#undecided;
  }

  /**
   * Decides which frontends Services do not get.
   *
   * @param services those that have changed, by key; undefined for one that is gone
   * @param isServed whether a Service has a frontend already
   */
  decide(
    services: Iterable<readonly [string, Service | undefined]>,
    context: CompileContext,
    isServed: (key: string, id: FrontendId) => boolean,
  ): void {
    let ownerOf: OwnerOf | undefined;
    // The node's sockets are read only for a new decision.
    const ask: OwnerOf = (...socket) => (ownerOf ??= this.#readNode())(...socket);
    for (const [key, service] of services) {
      const before = this.#owners.get(key);
      this.#owners.delete(key);
      this.#undecided.delete(key);
      if (service === undefined || service.externalIps.length === 0) continue;
      const owners = new Map<FrontendId, string>();
      for (const { frontend, protocol, family } of everyClaim(service, context)) {
        const id = frontendId(frontend, protocol, family);
        if (frontend.type !== "external" || isServed(key, id)) continue;
        const known = before?.get(id) ?? UNKNOWN;
        // A decision holds.
        const owner = known === UNKNOWN ? ask(frontend.address, protocol, frontend.port) : known;
        if (owner !== undefined && !(this.#inForce ??= this.#parts.inForce()).has(id)) owners.set(id, owner);
      }
      if (owners.size > 0) this.#owners.set(key, owners);
      if ([...owners.values()].includes(UNKNOWN)) this.#undecided.add(key);
    }
  }

  /** Notes that all objects have been read: what is in force from now on is this daemon's. */
  synced(): void {
    this.#inForce = new Set();
  }

  /** Returns refusals together with these. */
  beside(others: FrontendRefusals | undefined): FrontendRefusals {
    return {
      refusalOf: (service, frontend, protocol) => {
        const owner = this.#ownerOf(service.key, frontend, protocol);
        return owner === undefined ? others?.refusalOf(service, frontend, protocol) : { type: "taken port", owner };
      },
      isProtectedAddress: (address) => others?.isProtectedAddress(address) === true,
      isNodeAddress: (address) => others?.isNodeAddress(address) === true,
    };
  }

  #readNode(): OwnerOf {
    return attempt<OwnerOf>(
      () => {
        const node = this.#parts.node();
        return (...socket) => holderOf(...socket, node);
      },
      () => () => UNKNOWN,
    );
  }

  #ownerOf(key: string, frontend: PortClaim, protocol: Protocol): string | undefined {
    if (frontend.type !== "external") return undefined;
    return this.#owners.get(key)?.get(frontendId(frontend, protocol, familyOf(frontend.address)));
  }
}
