import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import type { FlowRow } from "../../../policyd/flows/row.ts";
import type { AuditFacts } from "../audit/facts.ts";
import type { Repair } from "../audit/leak.ts";
import type { Inventory, PodsThere } from "../cleanup/inventory.ts";
import type { Removal } from "../cleanup/removal.ts";
import type { NodeFacts } from "../doctor/facts.ts";
import type { Expected } from "../doctor/expectation.ts";
import type { NodePlace } from "../place.ts";

/** Where the ledger of a node's flows is, and who writes it. */
export interface FlowPlace {
  readonly socket: string;
  readonly directory: string;
}

/** The flows that a node's ledger has. */
export interface ReadFlows {
  readonly rows: readonly FlowRow[];
  /** Sentences about what is missing, and why. */
  readonly problems: readonly string[];
}

/** The node this process runs on. */
export interface NodeMachine {
  /** Looks at everything and changes nothing; what cannot be seen is said in the facts. */
  readFacts(place: NodePlace, expected: Expected): NodeFacts;
  /** Lists what might be ours. @throws DrawbridgeError where it cannot be listed */
  readInventory(place: NodePlace): Inventory;
  /** Looks only at what a cleanup waits for. @throws DrawbridgeError where it cannot be listed */
  readPods(place: NodePlace): PodsThere;
  /** Goes through the table of connections. @throws NetlinkError where the kernel refuses */
  visitConnections(visit: (entry: ConntrackEntry) => void): void;
  /** Reads the ledger of this node's flows, which the daemon is asked to write first. */
  readFlows(place: FlowPlace): ReadFlows;
  /** Asks the daemon which policies are in force. @returns a line of JSON for each @throws DrawbridgeError ERR_UNAVAILABLE */
  readPolicies(socket: string): string;
  /** Looks at what belongs to pods, for an audit; what cannot be seen is said in the facts. */
  readAuditFacts(place: NodePlace): AuditFacts;
  /** Repairs one leak. @throws DrawbridgeError where it is in use by now, or cannot be repaired */
  repair(place: NodePlace, repair: Repair): void;
  /** Removes one thing; that it is gone already is fine. @throws DrawbridgeError */
  remove(removal: Removal): void;
}

/** Opens the node, which takes what nobody else on the command line needs: the kernel's own interface. */
export interface NodeAccess {
  /** @param networkNamespace to work in instead of our own @throws SyscallError ERR_NAMESPACE */
  open(networkNamespace: string | undefined): Promise<NodeMachine>;
  sleep(milliseconds: number): Promise<void>;
}
