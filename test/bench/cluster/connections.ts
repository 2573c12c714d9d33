import { FAMILIES } from "../../../kernel/ip/address.ts";
import { buildKubernetes } from "../../cluster/programs.ts";
import type { Lab } from "../../lab/lab.ts";
import { compared, type Row } from "../row.ts";
import { estimateRatio, median, type Pair } from "../statistics.ts";
import { ConnectionProgram } from "./connection_program.ts";
import { caseTitle, type ConnectionCase, ConnectionStand, type Keeper } from "./connection_stand.ts";
import type { Plan } from "./plan.ts";

const MOST_MICROSECONDS_MORE = 1;
const MOST_ESTABLISHED = 1.03;

/**
 * Measures connections with no tables at all, with kube-proxy, and with policyd.
 *
 * All are measured in turn, in rounds that begin with another one each, and compared within a round.
 */
export async function compareConnections(
  lab: Lab,
  plan: Plan,
  progress: (step: string) => void,
): Promise<readonly Row[]> {
  const kubernetes = buildKubernetes(["kube-proxy"], progress);
  const program = new ConnectionProgram(lab.scratch);
  await using stands = new AsyncDisposableStack();
  async function open(name: string, keeper: Keeper): Promise<ConnectionStand> {
    progress(`a node for ${name}`);
    return stands.use(await ConnectionStand.open(`bench-${name}`, keeper));
  }
  const none = await open("none", { kind: "none" });
  const ours = await open("ours", { kind: "policyd" });
  const peer = await open("kube-proxy", { kind: "kube-proxy", executable: `${kubernetes.directory}/kube-proxy` });
  const rows: Row[] = [];
  for (const which of cases()) {
    const title = caseTitle(which);
    progress(title);
    const compete = [ours, peer, ...(which.by === "address" ? [none] : [])];
    const times = inTurn(plan, compete, (stand) => stand.measure(program, which, plan.connections));
    const pairs = (one: ConnectionStand, another: ConnectionStand): readonly Pair[] => pairsOf(times, one, another);
    rows.push(judged(which, pairs(ours, peer)));
    if (which.by === "address") rows.push(compared(title, "µs", "no tables", pairs(ours, none)));
  }
  return rows;
}

const KINDS = ["tcp-connect", "udp-connect", "tcp-exchange", "udp-exchange"] as const;

function cases(): readonly ConnectionCase[] {
  const kinds = FAMILIES.flatMap((family) => KINDS.map((kind) => ({ family, kind })));
  return kinds.flatMap(({ family, kind }) => {
    const ends = kind.endsWith("exchange") ? (["pod"] as const) : (["pod", "remote"] as const);
    return (["node", "pod"] as const).flatMap((from) =>
      ends.flatMap((to) => (["address", "ClusterIP"] as const).map((by) => ({ kind, family, from, to, by }))),
    );
  });
}

/** Returns the times of each by round; every round begins with another one. */
function inTurn(
  { connectionRounds }: Plan,
  stands: readonly ConnectionStand[],
  measure: (stand: ConnectionStand) => number,
): ReadonlyMap<ConnectionStand, readonly number[]> {
  const times = new Map(stands.map((stand) => [stand, [] as number[]]));
  for (let round = 0; round < connectionRounds; round++) {
    const first = round % stands.length;
    for (const stand of [...stands.slice(first), ...stands.slice(0, first)]) times.get(stand)?.push(measure(stand));
  }
  return times;
}

function pairsOf(
  times: ReadonlyMap<ConnectionStand, readonly number[]>,
  one: ConnectionStand,
  another: ConnectionStand,
): readonly Pair[] {
  const others = times.get(another) ?? [];
  return (times.get(one) ?? []).map((ours, round) => ({ ours, peer: others[round] ?? Number.NaN }));
}

/** Returns a row beside kube-proxy: for an established connection the ratio, for others the difference. */
function judged(which: ConnectionCase, pairs: readonly Pair[]): Row {
  const title = caseTitle(which);
  if (which.kind.endsWith("exchange")) {
    return compared(title, "µs", "kube-proxy", pairs, { ratioAtMost: MOST_ESTABLISHED });
  }
  const differences = pairs.map(({ ours, peer }) => ours - peer);
  const { high } = estimateRatio(differences.map((difference) => ({ ours: difference, peer: 1 })));
  return {
    ...compared(`${title} (${signed(median(differences))} µs)`, "µs", "kube-proxy", pairs),
    goal: `≤ +${MOST_MICROSECONDS_MORE} µs`,
    isReached: high <= MOST_MICROSECONDS_MORE,
  };
}

function signed(value: number): string {
  return `${value < 0 ? "" : "+"}${value.toFixed(2)}`;
}
