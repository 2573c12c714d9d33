import type { Selector } from "../../kernel/nftables/expression.ts";
import type { Chain, SetDefinition } from "../../kernel/nftables/object.ts";
import type { RateLimit, Rule, Statement } from "../../kernel/nftables/statement.ts";
import { accept, dropping, equals, goTo, hasBits, inRange, not, rule } from "../../kernel/nftables/statement.ts";
import { DropReason } from "./guard.ts";
import type { TablePart } from "./table_part.ts";

/** How long the kernel keeps fragments of a datagram that is not complete. */
export const REASSEMBLY_SECONDS = 2;

const MEBIBYTE = 1024 * 1024;
/**
 * The most memory that one fragment of at most {@link LONGEST} bytes takes (skb->truesize): its structures and a page of data beside its
 * header, which a sender with a packet socket chooses. One of the kernel's own takes half of that.
 */
const FRAGMENT_BYTES = 5 * 1024;
/** The usual MTU, and with the largest of links as many times {@link FRAGMENT_BYTES}. */
const LONGEST = 1500;
const LONGEST_OF_ALL = 9216;
const LARGE_FRAGMENTS = 4;
/** Pods on a node, for each of which there is a share at any time. */
const MOST_PODS = 256;

/** Fragments that may come in a second, and as many at once. */
export interface FragmentRates {
  /** From each pod at any time. */
  readonly share: number;
  /** Further ones of all pods together, and the most of them that a single pod gets. */
  readonly pool: number;
  readonly most: number;
  /** Further ones of more than 1500 bytes of all pods together. */
  readonly largePool: number;
}

/**
 * Divides the memory for reassembly: three eighths are the shares of 256 pods, three eighths are for whoever needs more, of which no
 * pod gets more than half, and a quarter is left to the node and its neighbours. Nothing of it is asked back: a fragment
 * that is never completed stays for {@link REASSEMBLY_SECONDS}.
 *
 * @param mebibytes of one family
 */
export function fragmentRates(mebibytes: number): FragmentRates {
  // Those that come at once, and those of the seconds in which these stay.
  const rateOf = (parts: number): number =>
    Math.max(1, Math.floor((mebibytes * MEBIBYTE * parts) / FRAGMENT_BYTES / (1 + REASSEMBLY_SECONDS)));
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
 * The part of the inet table that keeps pods to their share of the memory in which the kernel puts fragments together.
 *
 * Connection tracking reassembles at prerouting -400, and one memory for each family is all that a network namespace has: whoever
 * fills it with fragments of datagrams that never become complete keeps everybody from reassembling. So pods' fragments
 * are counted before, by their source, which the guard and the filter of the pod's port have compared with the pod's by then.
 *
 * Of a pod's packets only fragments pay for it, apart from the test whether they are: two comparisons of IPv4, and a look for the
 * header in IPv6, where it may come after others.
 */
export function fragmentShare(bridge: string, mebibytes: number): TablePart {
  const rates = fragmentRates(mebibytes);
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
    chains: FAMILIES.flatMap((family) => chainsOf(family, rates)),
    shared: {
      before_reassembly: [
        // The offset, and whether more follow.
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
      // Longer than any link takes: segments that were never cut, which take as much memory as thirty fragments.
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
