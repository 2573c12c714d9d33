import type { LabPod } from "../../lab/lab.ts";
import { newSide, type Side, timeCall, together } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { sleep } from "../sleep.ts";
import { withPolicyd } from "../with_policyd.ts";
import type { Context, Scenario } from "./context.ts";

const AT_ONCE = 30;
/** The number of kinds of pods, each with a policy of its own. */
const KINDS = 10;
const SETTLE_MILLISECONDS = 20;
/**
 * The number of pairs of a single ADD, which takes so little time that the processor where it happens to run matters.
 */
const PAIRS_OF_ONE = 10;

/**
 * Compares ADD with the daemon and policies to ADD without them: the cost of having a pod's policies in force before
 * its first packet. ADDs are made one at a time and several at once, on nodes that have their bridge. Both sides are
 * ours.
 */
export const policies: Scenario = (context: Context): readonly Row[] => {
  const { lab, pairs } = context;
  const podsOf = (prefix: string): readonly LabPod[] =>
    Array.from({ length: AT_ONCE }, (_, i) => lab.pod(`policies-${prefix}-${i}`));
  const [guarded, bare] = [podsOf("guarded"), podsOf("bare")];
  const resident = (side: string): LabPod => lab.pod(`policies-${side}-resident`);
  const residents = { guarded: resident("guarded"), alone: resident("alone") };
  const alone = newSide(context, context.ours, "policies-alone");
  timeCall(alone, "ADD", residents.alone);
  const objects = clusterOf([residents.guarded, ...guarded]);
  return withPolicyd(context, newSide(context, context.ours, "policies"), objects, (side) => {
    timeCall(side, "ADD", residents.guarded);
    const one = interleave(
      PAIRS_OF_ONE * pairs,
      (round) => timeAdd(side, guarded[round % AT_ONCE]),
      (round) => timeAdd(alone, bare[round % AT_ONCE]),
      (done) => context.progress(`ADD ${done}/${PAIRS_OF_ONE * pairs}`),
    );
    const many = interleave(
      pairs,
      () => timeAdds(side, guarded),
      () => timeAdds(alone, bare),
      (done) => context.progress(`${AT_ONCE} ADDs at once ${done}/${pairs}`),
    );
    const against = "only the plugin";
    const goal = { ratioAtMost: 1.5 };
    return [
      compared("ADD with policyd and policies", "ms", against, one, goal),
      compared(`${AT_ONCE} ADDs at once with policyd and policies`, "ms", against, many, goal),
    ];
  });
};

function timeAdd(side: Side, pod: LabPod | undefined): number {
  const { milliseconds } = timeCall(side, "ADD", pod);
  timeCall(side, "DEL", pod);
  sleep(SETTLE_MILLISECONDS);
  return milliseconds;
}

function timeAdds(side: Side, pods: readonly LabPod[]): number {
  const milliseconds = together(side, "ADD", pods);
  together(side, "DEL", pods);
  sleep(SETTLE_MILLISECONDS);
  return milliseconds;
}

/** Returns the pods' objects and their policies: everything is denied, and each kind allows the previous one. */
function clusterOf(pods: readonly LabPod[]): readonly object[] {
  const kindOf = (number: number): string => `kind-${(number + KINDS) % KINDS}`;
  const policy = (name: string, spec: object): object => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: "default" },
    spec,
  });
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } },
    policy("default-deny", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }),
    ...Array.from({ length: KINDS }, (_, kind) =>
      policy(kindOf(kind), {
        podSelector: { matchLabels: { app: kindOf(kind) } },
        ingress: [
          { from: [{ podSelector: { matchLabels: { app: kindOf(kind - 1) } } }], ports: [{ port: 80 }, { port: 443 }] },
        ],
        egress: [{ to: [{ ipBlock: { cidr: "192.0.2.0/24" } }] }],
        policyTypes: ["Ingress", "Egress"],
      }),
    ),
    ...pods.map(({ name }, number) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", uid: `uid-${name}`, labels: { app: kindOf(number) } },
      spec: { nodeName: "bench", containers: [{ name: "c" }] },
    })),
  ];
}
