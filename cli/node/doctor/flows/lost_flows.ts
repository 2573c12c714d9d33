import type { Doubt } from "../../../../kernel/nftables/foreign/chain_walk.ts";
import type { ForeignChain, ForeignTable } from "../../../../kernel/nftables/foreign/foreign_ruleset.ts";
import { type Cut, cutsOf } from "../../../../kernel/nftables/foreign/packet_walk.ts";
import { type Need, NEEDS, type Sample } from "./samples.ts";

/** Packets that pods need but that a chain of another program drops or rejects. */
export interface LostFlows {
  readonly table: ForeignTable;
  readonly base: ForeignChain;
  /** "may drop" where that depends on something unknown. */
  readonly verb: "drops" | "rejects" | "drops and rejects" | "may drop";
  readonly flows: readonly Sample[];
  /** The deciding rules; without a handle it is the base chain's policy. */
  readonly deciding: readonly { readonly chain: string; readonly handle: bigint | undefined }[];
  /** For "may drop": the rules that cannot be evaluated. */
  readonly doubts: readonly Doubt[];
}

/** Evaluates other programs' tables for the packets, and returns what is lost, grouped by base chain. */
export function lostFlows(tables: readonly ForeignTable[], samples: readonly Sample[]): readonly LostFlows[] {
  const found = new Map<string, { readonly sample: Sample; readonly cut: Cut }[]>();
  for (const sample of samples) {
    for (const cut of cutsOf(tables, sample.packet)) {
      const certainty = cut.doubts.length > 0 || cut.end.kind === "unknown" ? "may" : "is";
      const key = `${cut.table.family} ${cut.table.name} ${cut.base.name} ${certainty}`;
      found.set(key, [...(found.get(key) ?? []), { sample, cut }]);
    }
  }
  return [...found].flatMap(([key, cuts]): readonly LostFlows[] => {
    const [first] = cuts;
    if (first === undefined) return [];
    const { table, base } = first.cut;
    const kinds = new Set(cuts.map(({ cut }) => cut.end.kind));
    return [
      {
        table,
        base,
        verb: key.endsWith("may") ? "may drop" : verbOf(kinds),
        flows: [...new Set(cuts.map(({ sample }) => sample))],
        deciding: distinct(cuts.map(({ cut }) => cut.end)),
        doubts: distinct(cuts.flatMap(({ cut }) => cut.doubts)),
      },
    ];
  });
}

function verbOf(kinds: ReadonlySet<string>): LostFlows["verb"] {
  if (!kinds.has("reject")) return "drops";
  return kinds.has("drop") ? "drops and rejects" : "rejects";
}

function distinct<T extends { readonly chain: string; readonly handle: bigint | undefined }>(
  all: readonly T[],
): readonly T[] {
  return [...new Map(all.map((one) => [`${one.chain} ${one.handle}`, one])).values()];
}

/** Returns the needs of flows with their protocols, such as "pod to pod (IPv4 TCP, answers of IPv4 UDP)". */
export function flowsText(flows: readonly Sample[]): string {
  return NEEDS.flatMap((need) => {
    const ofNeed = flows.filter((one) => one.need === need);
    const begun = new Set(ofNeed.filter(({ isAnswer }) => !isAnswer).map(({ kind }) => kind));
    const answers = new Set(ofNeed.map(({ kind }) => kind).filter((kind) => !begun.has(kind)));
    const words = [...begun, ...[...answers].map((kind) => `answers of ${kind}`)];
    return words.length === 0 ? [] : [`${need} (${words.join(", ")})`];
  }).join("; ");
}

/** Returns whether pods or nodes of the cluster lose packets, and not only outside clients. */
export function isOfCluster(flows: readonly { readonly need: Need }[]): boolean {
  return flows.some(({ need }) => need !== "outside to pod");
}
