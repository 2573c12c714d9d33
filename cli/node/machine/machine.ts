import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import type { FlowRow } from "../../../policyd/flows/row.ts";
import type { AuditFacts } from "../audit/facts.ts";
import type { Repair } from "../audit/leak.ts";
import type { Inventory, PodsThere } from "../cleanup/inventory.ts";
import type { Removal } from "../cleanup/removal.ts";
import type { NodeFacts } from "../doctor/facts.ts";
import type { Seen } from "../../../policyd/problems/check.ts";
import type { Probed } from "../doctor/probe/loss.ts";
import type { Expected } from "../doctor/expectation.ts";
import type { NodePlace } from "../place.ts";

/** The place of a node's ledger of flows, and the socket of the daemon that writes it. */
export interface FlowPlace {
  readonly socket: string;
  readonly directory: string;
}

/** The flows in a node's ledger. */
export interface ReadFlows {
  readonly rows: readonly FlowRow[];
  /** Sentences about what is missing, and why. */
  readonly problems: readonly string[];
}

/** The node on which this process runs. */
export interface NodeMachine {
  /** Reads everything and changes nothing; the facts say what cannot be read. */
  readFacts(place: NodePlace, expected: Expected): NodeFacts;
  /** Attaches pods, sends packets to and from them, and deletes them; says why where that is not possible. */
  probe(facts: NodeFacts): Promise<Seen<Probed>>;
  /** Lists what might be ours. @throws DrawbridgeError where it cannot be listed */
  readInventory(place: NodePlace): Inventory;
  /** Reads only what a cleanup waits for. @throws DrawbridgeError where it cannot be listed */
  readPods(place: NodePlace): PodsThere;
  /** Visits the table of connections. @throws NetlinkError where the kernel refuses */
  visitConnections(visit: (entry: ConntrackEntry) => void): void;
  /** Reads the ledger of this node's flows, after the daemon has written it. */
  readFlows(place: FlowPlace): ReadFlows;
  /** Asks the daemon for the policies in force, as lines of JSON. @throws DrawbridgeError ERR_UNAVAILABLE */
  readPolicies(socket: string): string;
  /** Reads what belongs to pods, for an audit; the facts say what cannot be read. */
  readAuditFacts(place: NodePlace): AuditFacts;
  /** Repairs one leak. @throws DrawbridgeError where it is in use again, or cannot be repaired */
  repair(place: NodePlace, repair: Repair): void;
  /** Removes one thing, which may be gone already. @throws DrawbridgeError */
  remove(removal: Removal): void;
}

/** Opens the node. This loads the interface to the kernel, which no other command needs. */
export interface NodeAccess {
  /** @param networkNamespace to work in instead of our own @throws SyscallError ERR_NAMESPACE */
  open(networkNamespace: string | undefined): Promise<NodeMachine>;
  sleep(milliseconds: number): Promise<void>;
}
