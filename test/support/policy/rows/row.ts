import { assertEvaluator, type Expectation, expectAnswers } from "../lab/expectation.ts";
import { ninePods, type PodChanges } from "../lab/nine_pods.ts";
import { together } from "../lab/pairs.ts";
import { textsOf } from "../lab/place.ts";
import type { PolicyLab } from "../lab/policy_lab.ts";
import { inBoth, type Question, type Traffic } from "../lab/question.ts";
import type { LabelChanges } from "../three_by_three.ts";

/** One effect of policies on flows among upstream's nine pods, the two nodes and two hosts outside. */
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

/**
 * Asserts that the evaluator and the kernel give the verdicts of a row. One node of the lab has br_netfilter on and the
 * other one off; the two change places with each step.
 *
 * @param number the row's, so that rows of one step take either state
 */
export async function assertRow(lab: PolicyLab, { steps }: Row, number: number): Promise<void> {
  const all = typeof steps === "function" ? steps(lab) : steps;
  try {
    for (const [place, { policies, labels, pods, missing = [], ofPackets = {}, ...expectation }] of all.entries()) {
      const present = ninePods(lab, labels, pods).filter((object) => !missing.includes(podKey(object)));
      const objects = [...present, ...policies];
      assertEvaluator(lab, objects, expectation);
      lab.bridgeFrames((number + place) % 2 === 0 ? "as made" : "the other way");
      await lab.apply(objects);
      await expectAnswers(lab, together(expectation, ofPackets));
      lab.forgetConnections();
    }
  } finally {
    lab.bridgeFrames("as made");
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

/** Returns the prefixes of a place, of full length. */
export function prefixesOf(lab: PolicyLab, name: string): readonly [string, string] {
  const [v4, v6] = textsOf(lab.place(name));
  return [`${v4}/32`, `${v6}/128`];
}
