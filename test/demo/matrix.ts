import type { Family } from "../../kernel/ip/address.ts";

/** Who asks whom, how. */
export interface Question {
  readonly source: string;
  readonly target: string;
  readonly family: Family;
  readonly protocol: string;
}

/** What should be measured, from the topology alone. */
export interface Expected extends Question {
  readonly reached: boolean;
  /** The source address the target should see, when it is reached. */
  readonly seenSource: string;
}

/** What was measured. */
export interface Seen extends Question {
  readonly reached: boolean;
  readonly seenSource: string | undefined;
  /** Why it was not reached; empty when it was. */
  readonly why: string;
}

/** A cell where the two differ. */
export interface Difference extends Question {
  readonly problem: string;
}

/** A pod or a node, as the expectation sees it. */
export interface Party {
  readonly name: string;
  readonly node: string;
  readonly isPod: boolean;
  /** Its addresses that others see: a pod's own; a node's uplink. */
  readonly addresses: Readonly<Record<Family, string>>;
  /** The address a node talks to its own pods from: its bridge. */
  readonly localAddresses: Readonly<Record<Family, string>>;
}

/** The texts that name one question. */
export function questionKey({ source, target, family, protocol }: Question): string {
  return `${source} ${target} ${family} ${protocol}`;
}

/**
 * Everybody reaches every pod but themselves, in both families and every protocol, and is seen with an address of its
 * own (POD-03, POD-04, POD-05): pods always with their one address, nodes with that of the link towards the pod.
 */
export function expectedMatrix(parties: readonly Party[], protocols: readonly string[]): readonly Expected[] {
  const targets = parties.filter(({ isPod }) => isPod);
  return parties.flatMap((source) =>
    targets
      .filter((target) => target !== source)
      .flatMap((target) =>
        ([4, 6] as const).flatMap((family) =>
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

/** Every cell that differs, or that only one side has, in the order of the expectation. */
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
