import { type NftablesCounters, nftablesCounters } from "../../../../kernel/nftables/decode/counters.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { UPLINK } from "../../../lab/topology.ts";

const TABLE = { family: "inet", name: "policy-lab" } as const;

/**
 * The packets with questions that namespaces have counted: TCP's first one, UDP and SCTP in the direction of the
 * question, echo requests. A probe that sends no packet twice learns from them when no packet is on its way any more.
 */
export interface PacketCount {
  /** Before the policies: forwarded, received or sent by the namespace itself. */
  readonly entered: number;
  /** After all rules. */
  readonly left: number;
  /** The packets that left by the link to the other namespaces with a table. */
  readonly leftByUplink: number;
}

/**
 * Matches of a question's first packet. Without connection tracking (`untracked`) it is recognised by its ports: the
 * probe sends from 20000 and above.
 */
const QUESTIONS = [
  "meta l4proto tcp tcp flags & (syn | ack) == syn",
  "meta l4proto { udp, sctp } ct direction original",
  "ct state untracked udp dport < 20000 udp sport >= 20000",
  "icmp type echo-request",
  "icmpv6 type echo-request",
];

const CHAINS = { entered: "entered", left: "left", leftByUplink: "left_by_uplink" } as const;

/** The priorities before the rules of policies at -5 and after those of Services, which choose the destination. */
const BEFORE = -6;
const BEHIND = 300;

const TEXT = `table inet ${TABLE.name} {
${Object.values(CHAINS)
  .map((name) => `  chain ${name} { ${QUESTIONS.map((one) => `${one} counter comment "${name}"`).join("; ")}; }`)
  .join("\n")}
  chain forward { type filter hook forward priority ${BEFORE}; jump entered; }
  chain input { type filter hook input priority ${BEFORE}; iifname != "lo" jump entered; }
  chain output { type filter hook output priority ${BEFORE}; oifname != "lo" jump entered; }
  chain postrouting {
    type filter hook postrouting priority ${BEHIND};
    oifname != "lo" jump left
    oifname "${UPLINK}" jump left_by_uplink
  }
  chain received { type filter hook input priority ${BEHIND}; iifname != "lo" jump left; }
}`;

/** Counts packets in some namespaces, by a table of the test's own. */
export class PacketCounter {
  readonly #namespaces: readonly LabNamespace[];
  readonly #counters: NftablesCounters | undefined;

  constructor(namespaces: readonly LabNamespace[]) {
    this.#namespaces = namespaces;
    const [first] = namespaces;
    this.#counters = first === undefined ? undefined : nftablesCounters(first.calls);
    for (const namespace of namespaces) namespace.exec("nft", ["-f", "-"], TEXT);
  }

  /** Returns the packets since the beginning, of all namespaces together. */
  read(): PacketCount {
    return {
      entered: this.#sum(CHAINS.entered),
      left: this.#sum(CHAINS.left),
      leftByUplink: this.#sum(CHAINS.leftByUplink),
    };
  }

  #sum(chain: string): number {
    let sum = 0;
    for (const namespace of this.#namespaces) {
      // The socket of a list is opened at its first step.
      const rules = namespace.inside(() => [...(this.#counters?.rules(TABLE, chain) ?? [])].flat());
      for (const { packets } of rules) sum += packets;
    }
    return sum;
  }
}
