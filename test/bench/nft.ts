import { addressFromValue } from "../../kernel/ip/address.ts";
import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { formatChanges } from "../../kernel/nftables/text/text.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { compared, interleave, measured } from "./row.ts";
import type { Pair } from "./statistics.ts";
import type { Subject } from "./subjects.ts";

const NFT = "nft -f -";
/** Goals in milliseconds. */
const CHANGE_GOAL = 0.2;
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

/** Returns the subject: one change in a set of 10,000 elements and in an empty one, and the load of 100,000 elements. */
export function nftSubject(count: number): Subject {
  return (lab, progress) => {
    const namespace = lab.namespace("sets");
    const nft = namespace.inside(() => new NftablesSocket(namespace.calls));
    nft.commit([
      { kind: "add table", table },
      { kind: "add set", table, set: empty },
      { kind: "add set", table, set: full },
    ]);
    const present = Array.from({ length: PRESENT }, (_, index) => elementAt(1_000_000 + index));
    nft.commit([{ kind: "add elements", table, set: full, elements: present }]);
    progress("one element");
    const small = oneByOne(nft, namespace, empty, count);
    const large = oneByOne(nft, namespace, full, count);
    const rows = (["add", "delete"] as const).flatMap((verb) => {
      const title = `${verb} one element`;
      const more = large[verb].map(({ ours }, round) => ours - (small[verb][round]?.ours ?? ours));
      return [
        compared(`${title}, empty set`, "ms", NFT, small[verb], { most: CHANGE_GOAL }),
        compared(`${title}, set of ${PRESENT}`, "ms", NFT, large[verb], { most: CHANGE_GOAL }),
        measured(`${title}: with ${PRESENT} present less without`, "ms", more, DIFFERENCE_GOAL),
      ];
    });
    progress(`${LOADED} elements`);
    rows.push(compared(`load ${LOADED} elements`, "ms", NFT, loads(nft, namespace), { most: LOAD_GOAL }));
    nft.close();
    return rows;
  };
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
): Readonly<Record<"add" | "delete", readonly Pair[]>> {
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
  return { add: half(0), delete: half(1) };
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
