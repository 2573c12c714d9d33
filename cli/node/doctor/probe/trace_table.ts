import type { BaseChain, Chain, Table, TableFamily } from "../../../../kernel/nftables/model/object.ts";
import {
  equals,
  inRange,
  oneOf,
  rule,
  type Rule,
  type Statement,
} from "../../../../kernel/nftables/model/statement.ts";
import type { TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";

const NAME = "drawbridge-probe";
const HOOKS = ["prerouting", "input", "forward", "output", "postrouting"] as const;
const FIRST = -0x7fff_ffff;
const LAST = 0x7fff_ffff;
/** After each table of iptables: raw, mangle, nat of destinations, filter, security and nat of sources. */
const PRIORITIES = {
  inet: [FIRST, -250, -149, -99, 1, 51, 101, LAST],
  bridge: [FIRST, LAST],
} as const satisfies Partial<Record<TableFamily, readonly number[]>>;
type TracedFamily = keyof typeof PRIORITIES;

const trace: Statement = { kind: "set trace" };
/** The tunnel carries other pods' packets, too: some of them suffice. */
const some: Statement = { kind: "limit", rate: 50, unit: "second", burst: 50, isOver: false };

/**
 * Returns the tables that make the kernel trace the probe's packets, which go with the socket that makes them. They have
 * a chain before and after everything else in each hook, so that the trace shows where a packet was last.
 */
export function traceTables(ports: { readonly first: number; readonly last: number }): readonly Table[] {
  const probe = (field: "th sport" | "th dport"): Rule =>
    rule(oneOf("meta l4proto", ["tcp", "udp"]), inRange(field, ports.first, ports.last), trace);
  const rules = [probe("th sport"), probe("th dport")];
  const carried = rule(equals("udp dport", TUNNEL.port), some, trace);
  return (["inet", "bridge"] as const).map((family) => ({
    family,
    name: NAME,
    isOwned: "until closed",
    sets: [],
    chains: HOOKS.flatMap((hook) =>
      PRIORITIES[family].map((priority, i): Chain => {
        const base: BaseChain = { type: "filter", hook, priority, policy: "accept" };
        const isFirst = family === "inet" && i === 0 && hook !== "postrouting";
        return { name: `${hook}-${i}`, base, rules: isFirst ? [...rules, carried] : rules };
      }),
    ),
  }));
}

/** The place of a packet between two chains of {@link traceTables}. */
export interface Passage {
  readonly family: TracedFamily;
  readonly hook: string;
  /** The priorities of the chain that it has passed, and of the next one; the hook's end has none after it. */
  readonly after: number;
  readonly before: number | undefined;
}

/** Returns the place that an event proves; undefined for one of another program's table. */
export function passageOf({ family, table, chain }: TraceEvent): Passage | undefined {
  const [, hook, number] = /^([a-z]+)-(\d)$/.exec(chain) ?? [];
  if (table !== NAME || hook === undefined || (family !== "inet" && family !== "bridge")) return undefined;
  const priorities: readonly number[] = PRIORITIES[family];
  const after = priorities[Number(number)];
  return after === undefined ? undefined : { family, hook, after, before: priorities[Number(number) + 1] };
}
