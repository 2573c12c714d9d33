import { type Family, FAMILIES } from "../../kernel/ip/address.ts";

/** A question: its source and target, the family and the protocol. */
export interface Question {
  readonly source: string;
  readonly target: string;
  readonly family: Family;
  readonly protocol: string;
}

/** The expected result, which follows only from the topology. */
export interface Expected extends Question {
  readonly reached: boolean;
  /** The source address that the target should see, when it is reached. */
  readonly seenSource: string;
}

/** The measured result. */
export interface Seen extends Question {
  readonly reached: boolean;
  readonly seenSource: string | undefined;
  /** The reason why it was not reached; empty when it was. */
  readonly why: string;
}

/** A cell in which the expected and the measured result differ. */
export interface Difference extends Question {
  readonly problem: string;
}

/** A pod or a node, as the expectation describes it. */
export interface Party {
  readonly name: string;
  readonly node: string;
  readonly isPod: boolean;
  /** The addresses under which others see it: a pod's own; a node's uplink. */
  readonly addresses: Readonly<Record<Family, string>>;
  /** The addresses from which a node talks to its own pods: its bridge's. */
  readonly localAddresses: Readonly<Record<Family, string>>;
}

/** Returns the key of a question. */
export function questionKey({ source, target, family, protocol }: Question): string {
  return `${source} ${target} ${family} ${protocol}`;
}

/**
 * Returns the expectation that every party reaches every other pod, in both families and every protocol, and is seen
 * with an address of its own (POD-03, POD-04, POD-05): pods always with their only address, nodes with that of the link
 * towards the pod.
 */
export function expectedMatrix(parties: readonly Party[], protocols: readonly string[]): readonly Expected[] {
  const targets = parties.filter(({ isPod }) => isPod);
  return parties.flatMap((source) =>
    targets
      .filter((target) => target !== source)
      .flatMap((target) =>
        FAMILIES.flatMap((family) =>
          protocols.map((protocol) => ({
            source: source.name,
            target: target.name,
            family,
            protocol,
            reached: true,
            seenSource: (source.node === target.node ? source.localAddresses : source.addresses)[family],
          })),
        ),
      ),
  );
}

/** Returns every cell that differs, or that exists only on one side, in the order of the expectation. */
export function compareMatrices(expected: readonly Expected[], seen: readonly Seen[]): readonly Difference[] {
  const seenByKey = new Map(seen.map((cell) => [questionKey(cell), cell]));
  const expectedKeys = new Set(expected.map(questionKey));
  const differences = expected.flatMap((cell) => {
    const problem = problemOf(cell, seenByKey.get(questionKey(cell)));
    return problem === undefined ? [] : [{ ...questionOf(cell), problem }];
  });
  const unexpected = seen
    .filter((cell) => !expectedKeys.has(questionKey(cell)))
    .map((cell) => ({ ...questionOf(cell), problem: "measured, but nothing was expected of it" }));
  return [...differences, ...unexpected];
}

function problemOf(expected: Expected, seen: Seen | undefined): string | undefined {
  if (seen === undefined) return "not measured";
  if (expected.reached !== seen.reached) {
    return expected.reached ? `expected an answer: ${seen.why}` : "expected no answer, got one";
  }
  if (!expected.reached || expected.seenSource === seen.seenSource) return undefined;
  return `expected to arrive from ${expected.seenSource}, arrived from ${seen.seenSource ?? "an address nobody saw"}`;
}

function questionOf({ source, target, family, protocol }: Question): Question {
  return { source, target, family, protocol };
}
