import { type ChainEnd, type Doubt, eitherState, walkBaseChain } from "./chain_walk.ts";
import type { ForeignChain, ForeignHook, ForeignTable } from "./foreign_ruleset.ts";
import { type FrameSide, initialState, packetFamily, type PacketState, type SamplePacket } from "./sample_packet.ts";

/**
 * The hooks of the bridge family that a frame passes. Pods are routed, so a pod's frame ends or begins at the bridge;
 * frames that a bridge forwards from port to port do not concern pods (br_handle_frame, br_dev_xmit).
 */
const FRAME_HOOKS: Readonly<Record<FrameSide["direction"], readonly ForeignHook[]>> = {
  "from a port": ["prerouting", "input"],
  "to a port": ["output", "postrouting"],
};

/** The hooks that a packet passes, in order. */
const HOOKS: Readonly<Record<SamplePacket["path"], readonly ForeignHook[]>> = {
  forward: ["ingress", "prerouting", "forward", "postrouting", "egress"],
  input: ["ingress", "prerouting", "input"],
  output: ["output", "postrouting", "egress"],
};

/** A base chain in which a packet may be lost. */
export interface Cut {
  readonly table: ForeignTable;
  readonly base: ForeignChain;
  readonly end: ChainEnd;
  /** The reasons for uncertainty; empty when the loss is certain. */
  readonly doubts: readonly Doubt[];
}

interface Place {
  readonly table: ForeignTable;
  readonly base: ForeignChain & { readonly base: NonNullable<ForeignChain["base"]> };
}

/**
 * Returns the places where other programs' rules drop or refuse a packet on its way through the node: at most one
 * certain place, the last, and before it every place that depends on something unknown.
 */
export function cutsOf(tables: readonly ForeignTable[], packet: SamplePacket): readonly Cut[] {
  const cuts: Cut[] = [];
  let state: PacketState = initialState(packet);
  for (const hook of packet.frame === undefined ? HOOKS[packet.path] : FRAME_HOOKS[packet.frame.direction]) {
    for (const { table, base } of chainsAt(tables, hook, packet)) {
      const { ends, doubts } = walkBaseChain(table, base, hook, packet, state);
      const passed = ends.filter(({ kind }) => kind === "pass" || kind === "unknown");
      const lost = ends.filter(({ kind }) => kind !== "pass");
      for (const end of distinct(lost)) cuts.push({ table, base, end, doubts: passed.length === 0 ? [] : doubts });
      const rest = passed.reduce<PacketState | undefined>((all, one) => eitherState(all, one.state), undefined);
      if (rest === undefined) return cuts;
      state = rest;
    }
  }
  return cuts;
}

function chainsAt(tables: readonly ForeignTable[], hook: ForeignHook, packet: SamplePacket): readonly Place[] {
  const places = tables.flatMap((table) =>
    seesFamily(table, packet)
      ? [...table.chains.values()].flatMap((chain): readonly Place[] =>
          chain.base?.hook === hook && seesLink(chain.base.devices, hook, packet)
            ? [{ table, base: { ...chain, base: chain.base } }]
            : [],
        )
      : [],
  );
  return places.sort((a, b) => a.base.base.priority - b.base.base.priority);
}

function seesFamily({ family }: ForeignTable, packet: SamplePacket): boolean {
  if (packet.frame !== undefined) return family === "bridge";
  return family === "inet" || family === "netdev" || family === (packetFamily(packet) === 4 ? "ip" : "ip6");
}

function seesLink(devices: readonly string[], hook: ForeignHook, packet: SamplePacket): boolean {
  if (hook !== "ingress" && hook !== "egress") return true;
  const link = hook === "ingress" ? packet.in : packet.out;
  return link !== undefined && devices.includes(link.name);
}

/** Returns one end for each rule. */
function distinct(ends: readonly ChainEnd[]): readonly ChainEnd[] {
  return [...new Map(ends.map((end) => [`${end.kind} ${end.chain} ${end.handle}`, end])).values()];
}
