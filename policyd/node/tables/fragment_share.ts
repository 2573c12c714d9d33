import type { Family } from "../../../kernel/ip/address.ts";
import type { Selector } from "../../../kernel/nftables/model/expression.ts";
import type { Chain, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import {
  accept,
  dropping,
  equals,
  goTo,
  hasBits,
  inRange,
  not,
  type RateLimit,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/** How long the kernel should keep the fragments of an incomplete datagram. */
export const REASSEMBLY_SECONDS = 2;

/** The memory and the time that the kernel has for reassembly in one family. */
export interface Reassembly {
  readonly mebibytes: number;
  /** How long it keeps the fragments of an incomplete datagram. */
  readonly seconds: number;
}

const MEBIBYTE = 1024 * 1024;
/**
 * The most memory that one fragment of at most {@link LONGEST} bytes takes (skb->truesize): its structures, and a page
 * of data beside its header, which a sender with a packet socket can choose. A fragment made by the kernel takes half
 * of that.
 */
const FRAGMENT_BYTES = 5 * 1024;
/** The usual MTU. A fragment of the largest MTU costs {@link LARGE_FRAGMENTS} times {@link FRAGMENT_BYTES}. */
const LONGEST = 1500;
const LONGEST_OF_ALL = 9216;
const LARGE_FRAGMENTS = 4;
/** Number of pods on a node that are guaranteed a share at any time. */
const MOST_PODS = 256;

/** Fragments allowed per second; each number is also the burst. */
export interface FragmentRates {
  /** Guaranteed to each pod at any time. */
  readonly share: number;
  /** Extra fragments for all pods together; `most` is the part that a single pod can get. */
  readonly pool: number;
  readonly most: number;
  /** Extra fragments of more than 1500 bytes for all pods together. */
  readonly largePool: number;
}

/**
 * Divides the memory for reassembly: three eighths are the shares of 256 pods, three eighths are for pods that need
 * more, of which no pod gets more than half, and a quarter is left to the node and its neighbours. Nothing is reclaimed
 * early: an incomplete fragment stays for the seconds of the setting.
 */
export function fragmentRates({ mebibytes, seconds }: Reassembly): FragmentRates {
  // The burst, plus the fragments that arrive in the seconds during which the burst stays.
  const rateOf = (parts: number): number =>
    Math.max(1, Math.floor((mebibytes * MEBIBYTE * parts) / FRAGMENT_BYTES / (1 + seconds)));
  const pool = rateOf(2 / 8);
  return {
    share: rateOf(3 / 8 / MOST_PODS),
    pool,
    most: Math.ceil(pool / 2),
    largePool: Math.ceil(rateOf(1 / 8) / LARGE_FRAGMENTS),
  };
}

const FAMILIES = [
  { number: 4, source: "ip saddr", type: "ipv4_addr", length: "ip length", shortest: 20, header: 0 },
  { number: 6, source: "ip6 saddr", type: "ipv6_addr", length: "ip6 length", shortest: 1, header: 40 },
] as const;

/**
 * Returns the part of the inet table that limits each pod to its share of the kernel's reassembly memory.
 *
 * Connection tracking reassembles at prerouting -400, and a network namespace has one memory for each family: a sender
 * that fills it with fragments of datagrams that never become complete keeps everybody from reassembling. So pods'
 * fragments are counted before that, by source address, which the guard and the filter on the pod's port have verified
 * by then.
 *
 * Only fragments pay for it. Other packets of a pod cost the test for a fragment: two comparisons for IPv4, and a
 * search for the extension header in IPv6, where it may follow others.
 *
 * @param reassembly what is in force for each family
 */
export function fragmentShare(bridge: string, reassembly: Readonly<Record<Family, Reassembly>>): TablePart {
  const fromPods = equals("iifname", bridge);
  return {
    sets: FAMILIES.flatMap(({ number, type }) =>
      ["fragments", "fragments_beyond"].map((name): SetDefinition => ({
        name: `${name}${number}`,
        key: [type],
        isDynamic: true,
        timeout: 60_000,
        size: 4096,
      })),
    ),
    chains: FAMILIES.flatMap((family) => chainsOf(family, fragmentRates(reassembly[family.number]))),
    shared: {
      before_reassembly: [
        // Matches any fragment: a nonzero offset, or "more fragments".
        rule(fromPods, not(hasBits("ip frag-off", 0x3fff, 0)), goTo("fragments4")),
        rule(fromPods, equals("exthdr frag", "exists"), goTo("fragments6")),
      ],
    },
  };
}

function chainsOf(family: (typeof FAMILIES)[number], rates: FragmentRates): readonly Chain[] {
  const { number, source, length, shortest, header } = family;
  const isLonger = (than: number): Statement => not(inRange(length, shortest, than - header));
  const rules = (times: number, pool: number): readonly Rule[] => {
    const charge = (set: string, rate: number): readonly Statement[] =>
      Array<Statement>(times).fill(counted(`${set}${number}`, source, rate));
    return [
      rule(...charge("fragments", rates.share), accept),
      rule(...charge("fragments_beyond", rates.most), upTo(pool), accept),
      dropping(DropReason.FRAGMENT),
    ];
  };
  return [
    {
      name: `large_fragments${number}`,
      // Longer than any link takes: unsplit segments, which take as much memory as thirty fragments.
      rules: [dropping(DropReason.FRAGMENT, isLonger(LONGEST_OF_ALL)), ...rules(LARGE_FRAGMENTS, rates.largePool)],
    },
    {
      name: `fragments${number}`,
      rules: [rule(isLonger(LONGEST), goTo(`large_fragments${number}`)), ...rules(1, rates.pool)],
    },
  ];
}

function counted(set: string, key: Selector, rate: number): Statement {
  return { kind: "dynamic", operation: "update", set, key, limit: upTo(rate) };
}

function upTo(rate: number): RateLimit {
  return { kind: "limit", rate, unit: "second", burst: rate, isOver: false };
}
