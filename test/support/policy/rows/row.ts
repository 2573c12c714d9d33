import { type Expectation, expectOf, expectPackets } from "../lab/expectation.ts";
import { ninePods, type PodChanges } from "../lab/nine_pods.ts";
import type { PolicyLab } from "../lab/policy_lab.ts";
import { inBoth, type Question, type Traffic } from "../lab/question.ts";
import type { LabelChanges } from "../three_by_three.ts";

/** What policies do to flows among upstream's nine pods, the two nodes and two hosts outside. */
export interface Row {
  /** The behaviours and what they say, as the title of a test. */
  readonly title: string;
  /** The states of the cluster, one after the other; a function where they depend on the addresses in the lab. */
  readonly steps: readonly Step[] | ((lab: PolicyLab) => readonly Step[]);
}

/** A state of the cluster, with the flows that it allows and denies. */
export interface Step extends Expectation {
  readonly policies: readonly object[];
  /** Changed labels, by `namespace` or `namespace/pod`. */
  readonly labels?: LabelChanges;
  /** Other fields of pods, by `namespace/pod`. */
  readonly pods?: PodChanges;
  /** Pods by `namespace/pod` of which there is no object. */
  readonly missing?: readonly string[];
  /** Fates that only packets have: the evaluator does not know Services, and pods that have gone or ended. */
  readonly ofPackets?: Expectation;
}

/** Asserts that the evaluator and the kernel give the verdicts of a row. */
export async function assertRow(lab: PolicyLab, { steps }: Row): Promise<void> {
  for (const { policies, labels, pods, missing = [], ofPackets, ...expectation } of typeof steps === "function"
    ? steps(lab)
    : steps) {
    const objects = ninePods(lab, labels, pods).filter((object) => !missing.includes(podKey(object)));
    await expectOf(lab, [...objects, ...policies], expectation);
    if (ofPackets !== undefined) await expectPackets(lab, ofPackets);
  }
}

function podKey(object: object): string {
  const { kind, metadata } = object as {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly namespace?: string };
  };
  return kind === "Pod" ? `${metadata.namespace}/${metadata.name}` : "";
}

/** Returns flows to x/a from a pod of its node, from one of the other node and from a host outside. */
export const into = (...traffics: readonly Traffic[]): readonly Question[] =>
  ["x/b", "z/a", "outside"].flatMap((from) => inBoth(from, "x/a", ...traffics));

/** Returns flows from x/a to the same ends. */
export const outOf = (...traffics: readonly Traffic[]): readonly Question[] =>
  ["x/b", "z/a", "outside"].flatMap((to) => inBoth("x/a", to, ...traffics));

/** Returns peers by these prefixes. */
export const blocks = (...cidrs: readonly string[]): readonly object[] => cidrs.map((cidr) => ({ ipBlock: { cidr } }));
