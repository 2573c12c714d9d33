import type { ClusterObject } from "../../../objects/model.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import type { Grouping } from "../../cluster/group.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode, type Io } from "../../io.ts";
import type { Manifest, Manifests } from "../../input/manifests.ts";
import { type StandIns, standInsFor } from "../stand_ins.ts";
import type { Shown } from "../../input/shown.ts";
import { counted } from "../../output/text.ts";
import { diffPolicies, type PolicyDiff } from "./diff.ts";
import type { End, Sides } from "./end_class.ts";
import { mergeAlike } from "./merge.ts";
import type { DiffReport } from "./print.ts";
import { givenOnSides, wayChanges, type WaySide, waySideOf } from "./ways.ts";
import { locator } from "../../input/locate.ts";
import { type Locations, witnessOf } from "./witness.ts";

/** The objects of one side, as they were read. */
export interface ReadSide extends Pick<Manifests, "manifests" | "wayObjects"> {
  /** The manifests by which ways in are found; all of them when absent. */
  readonly wayManifests?: readonly Manifest[];
}

/** How two sides are compared. */
export interface ComparisonForm {
  readonly by: Grouping;
  readonly options: PolicyOptions;
  /** The controllers of ways in that the command line names. */
  readonly controllers: readonly string[];
}

/** Two sides and all that differs between them. */
export interface Comparison {
  /** With stand-ins for what is in no file. */
  readonly whole: Sides;
  readonly standIns: StandIns;
  /** Without the stand-ins. */
  readonly sides: Sides;
  readonly ways: Readonly<Record<keyof Sides, WaySide>>;
  readonly locations: Locations;
  readonly diff: PolicyDiff & Pick<DiffReport, "ways" | "hidden">;
}

/** Compares two sides. @throws DrawbridgeError ERR_OBJECT for controllers that do not exist */
export function compareSides(
  read: Readonly<Record<keyof Sides, ReadSide>>,
  { by, options, controllers }: ComparisonForm,
): Comparison {
  const objectsOf = ({ manifests }: ReadSide): readonly ClusterObject[] => manifests.map(({ object }) => object);
  const objects = { before: objectsOf(read.before), after: objectsOf(read.after) };
  const standIns = standInsFor(objects.before, objects.after);
  const indexOf = (side: keyof Sides): PolicyIndex =>
    buildPolicyIndex(storeOf([...objects[side], ...standIns.objects]), options);
  const whole = { before: indexOf("before"), after: indexOf("after") };
  const sides = withoutStandIns(whole, standIns);
  const given = givenOnSides(controllers, sides);
  const waysOf = (side: keyof Sides): WaySide => {
    const { wayObjects, manifests, wayManifests = manifests } = read[side];
    return waySideOf({ wayObjects, manifests: wayManifests, index: sides[side], options, given });
  };
  const ways = { before: waysOf("before"), after: waysOf("after") };
  const locations = { before: locator(read.before.manifests), after: locator(read.after.manifests) };
  const diff = { ...diffPolicies(whole, by, standIns.names), ways: wayChanges(ways.before, ways.after, by), hidden: 0 };
  return { whole, standIns, sides, ways, locations, diff };
}

function withoutStandIns(sides: Sides, { names }: StandIns): Sides {
  if (names.size === 0) return sides;
  const without = ({ pods, nodes, ...index }: PolicyIndex): PolicyIndex => ({
    ...index,
    pods: new Map([...pods].filter(([key]) => !names.has(key))),
    nodes: new Map([...nodes].filter(([name]) => !names.has(name))),
  });
  return { before: without(sides.before), after: without(sides.after) };
}

/**
 * Returns the diff with a witness for each change.
 *
 * @param shown the part of it that is shown, from {@link shownPart}
 * @param isMerged whether groups with equal changes are merged
 */
export function diffReport(
  { whole, locations }: Comparison,
  { ways, hidden, ...shown }: Comparison["diff"],
  isMerged: boolean,
): DiffReport {
  const changes = isMerged
    ? mergeAlike(shown.changes, shown.groups)
    : shown.changes.map((one) => ({ ...one, from: [one.from.name], to: [one.to.name] }));
  return {
    changes: changes.map((one) => ({ ...one, witness: witnessOf(whole, locations, one.change, one.example) })),
    ways,
    hidden,
    appeared: shown.appeared,
    gone: shown.gone,
  };
}

/** Returns the exit code of a comparison: no difference among some of the pods is not an answer. */
export function exitCodeOf({ standIns, diff }: Comparison, { err }: Io): ExitCode {
  const isDifferent = diff.changes.length + diff.ways.length > 0;
  if (standIns.isComplete) return isDifferent ? ExitCode.NO : ExitCode.YES;
  err.write("not compared: too many kinds of new pods that the policies tell apart, so others may differ, too\n");
  return isDifferent ? ExitCode.NO : ExitCode.ERROR;
}

/** Returns the diff with only the changes of pods that are shown, and reports the number of the others. */
export function shownPart({ diff, whole: sides }: Comparison, isShown: Shown, { err }: Io): Comparison["diff"] {
  const isEndShown = ({ podBefore, podAfter }: End): boolean => {
    const pod = sides.after.pods.get(podAfter?.key ?? "")?.pod ?? sides.before.pods.get(podBefore?.key ?? "")?.pod;
    return pod !== undefined && isShown(pod.namespace, pod.labels);
  };
  const changes = diff.changes.filter(({ example }) => isEndShown(example.source) || isEndShown(example.destination));
  const ways = diff.ways.filter(({ pods, service }) =>
    pods.length === 0
      ? isShown(service.split("/")[0], {})
      : pods.some(({ namespace, labels }) => isShown(namespace, labels)),
  );
  const hidden = diff.changes.length + diff.ways.length - changes.length - ways.length;
  if (hidden > 0) err.write(`not shown: ${counted(hidden, "change")} of other pods, which the exit code counts\n`);
  return { ...diff, changes, ways, hidden };
}
