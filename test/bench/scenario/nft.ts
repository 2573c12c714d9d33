import { addressFromValue } from "../../../kernel/ip/address.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { formatChanges } from "../../../kernel/nftables/text/text.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { interleave } from "../row.ts";
import { median, type Pair } from "../statistics.ts";

/** One change of a ruleset, made by us and by the program nft. */
export interface NftRow {
  readonly title: string;
  /** Milliseconds. */
  readonly pairs: readonly Pair[];
  /** The median, in milliseconds. */
  readonly ours: number;
  readonly peer: number;
  /** The largest number of milliseconds that meets our goal. */
  readonly goal: number | undefined;
  readonly isReached: boolean | undefined;
}

const ADD_GOAL = 0.2;
const DIFFERENCE_GOAL = 0.1;
const LOAD_GOAL = 1000;
const LOADS = 3;
const PRESENT = 10_000;
const LOADED = 100_000;

const table = { family: "inet", name: "bench" } as const;
const empty: SetDefinition = { name: "empty", key: ["ipv4_addr", "inet_proto", "inet_service"] };
const full: SetDefinition = { ...empty, name: "full" };
const loaded: SetDefinition = { ...empty, name: "loaded", data: ["ipv4_addr", "inet_service"] };

/** Returns an element of its own for each number. */
function elementAt(index: number): Element {
  return { key: [addressFromValue(4, BigInt(0x0a000000 + index)) ?? 0, "tcp", 80] };
}

/** Measures one change in a set of 10,000 and in an empty one, and the load of 100,000 elements. */
export function measureNft(lab: Lab, pairs: number, progress: (step: string) => void): readonly NftRow[] {
  const namespace = lab.namespace("nft");
  const nft = namespace.inside(() => new NftablesSocket(namespace.calls));
  nft.commit([
    { kind: "add table", table },
    { kind: "add set", table, set: empty },
    { kind: "add set", table, set: full },
  ]);
  const present = Array.from({ length: PRESENT }, (_, index) => elementAt(1_000_000 + index));
  nft.commit([{ kind: "add elements", table, set: full, elements: present }]);
  const rows: NftRow[] = [];
  for (const set of [empty, full]) {
    progress(`one element, ${set.name} set`);
    const [added, deleted] = oneByOne(nft, namespace, set, pairs);
    rows.push(rowOf(`add one element, ${set.name} set`, added, ADD_GOAL));
    rows.push(rowOf(`delete one element, ${set.name} set`, deleted, ADD_GOAL));
  }
  const [addEmpty, deleteEmpty, addFull, deleteFull] = rows;
  if (addEmpty !== undefined && addFull !== undefined) rows.push(difference("add", addFull, addEmpty));
  if (deleteEmpty !== undefined && deleteFull !== undefined) rows.push(difference("delete", deleteFull, deleteEmpty));
  progress(`${LOADED} elements`);
  rows.push(rowOf(`load ${LOADED} elements`, loads(nft, namespace), LOAD_GOAL));
  nft.close();
  return rows;
}

function rowOf(title: string, pairs: readonly Pair[], goal: number | undefined): NftRow {
  const ours = median(pairs.map((pair) => pair.ours));
  const peer = median(pairs.map((pair) => pair.peer));
  return { title, pairs, ours, peer, goal, isReached: goal === undefined ? undefined : ours <= goal };
}

/** Returns the additional cost of a change of one element among 10,000, within the same round. */
function difference(verb: string, large: NftRow, small: NftRow): NftRow {
  const pairs = large.pairs.map(({ ours, peer }, round) => ({
    ours: ours - (small.pairs[round]?.ours ?? ours),
    peer: peer - (small.pairs[round]?.peer ?? peer),
  }));
  return rowOf(`${verb} one element: with ${PRESENT} present against none`, pairs, DIFFERENCE_GOAL);
}

function timed(action: () => void): number {
  const start = performance.now();
  action();
  return performance.now() - start;
}

/** Measures adding an element and deleting it, by us and by nft. */
function oneByOne(
  nft: NftablesSocket,
  namespace: LabNamespace,
  set: SetDefinition,
  pairs: number,
): readonly [added: readonly Pair[], deleted: readonly Pair[]] {
  const change = (kind: "add elements" | "delete elements", round: number): readonly Change[] => [
    { kind, table, set, elements: [elementAt(round)] },
  ];
  const both = interleave(
    pairs,
    (round) => [
      timed(() => nft.commit(change("add elements", round))),
      timed(() => nft.commit(change("delete elements", round))),
    ],
    (round) => [
      timed(() => namespace.exec("nft", ["-f", "-"], formatChanges(change("add elements", round)))),
      timed(() => namespace.exec("nft", ["-f", "-"], formatChanges(change("delete elements", round)))),
    ],
  );
  const half = (index: 0 | 1): readonly Pair[] =>
    both.map(({ ours, peer }) => ({ ours: ours[index] ?? 0, peer: peer[index] ?? 0 }));
  return [half(0), half(1)];
}

/** Measures the load of a map of 100,000 elements in one batch; the map is made before and removed after. */
function loads(nft: NftablesSocket, namespace: LabNamespace): readonly Pair[] {
  const elements = Array.from({ length: LOADED }, (_, index): Element => {
    const { key } = elementAt(index);
    const [address = 0] = key;
    return { key, data: [typeof address === "object" ? 0 : address, 8080] };
  });
  const changes: readonly Change[] = [{ kind: "add elements", table, set: loaded, elements }];
  const text = formatChanges(changes);
  const around = (load: () => void): number => {
    nft.commit([{ kind: "add set", table, set: loaded }]);
    const milliseconds = timed(load);
    nft.commit([{ kind: "delete set", table, set: loaded }]);
    return milliseconds;
  };
  return interleave(
    LOADS,
    () => around(() => nft.commit(changes)),
    () => around(() => namespace.exec("nft", ["-f", "-"], text)),
  );
}
