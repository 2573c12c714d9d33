import { judge } from "../../../objects/gate/gate.ts";
import type { Manifest, ManifestProblem, Manifests } from "../manifests.ts";
import { isExperimental, KEPT, NO_WAY_IN, withHostPorts } from "../objects/take.ts";
import { CLUSTER } from "../place.ts";
import type { ClusterAccess } from "./access.ts";
import { listAll } from "./list.ts";
import type { ObjectInput } from "./object_input.ts";
import { otherEngines } from "./other_engines.ts";
import { type Resource, RESOURCES, WAY_RESOURCES } from "./resources.ts";
import { readWayObject } from "../ways/read.ts";
import type { PlacedWayObject } from "../ways/way_object.ts";
import { isObject } from "../../../objects/gate/reader.ts";

/** The result for one object of the server. */
interface Taken {
  readonly manifest?: Manifest;
  readonly problems?: readonly ManifestProblem[];
  readonly remarks?: readonly ManifestProblem[];
  readonly omitted?: readonly ManifestProblem[];
  readonly wayObject?: PlacedWayObject;
}

/** Objects of a server have no line in a file. */
const LINE = 1;

/**
 * Reads the objects of a running cluster through the same gate as files, with the server's own defaults.
 *
 * A policy that the gate refuses, or accepts in part, is a problem. A refused object of another kind is omitted with a
 * remark, since the server has accepted it and its effect is not known.
 *
 * @param hasWaysIn whether to read the objects by which connections come in; forbidden ones are reported
 * @throws DrawbridgeError ERR_INPUT naming server and resource, when not all of it can be read
 */
export async function readCluster(
  input: Pick<ObjectInput, "connect" | "sleep">,
  access: ClusterAccess,
  hasWaysIn = false,
): Promise<Manifests> {
  const server = await input.connect(access);
  const taken: Taken[] = [];
  for (const resource of RESOURCES) {
    const take = (object: unknown): Taken => takeObject(object, resource);
    // Reads one list at a time: a busy server gets one request, and the first failure is reported.
    for (const one of await listAll(server, resource, take, (time) => input.sleep(time))) taken.push(one);
  }
  for (const resource of hasWaysIn ? WAY_RESOURCES : []) {
    const forbidden = (why: string): readonly Taken[] => [noWayIn(why)];
    for (const one of await listAll(server, resource, takeWayObject, (time) => input.sleep(time), forbidden))
      taken.push(one);
  }
  for (const text of await otherEngines(server))
    taken.push({ omitted: [{ file: CLUSTER, line: LINE, message: text }] });
  return {
    manifests: taken.flatMap(({ manifest }) => manifest ?? []),
    problems: taken.flatMap(({ problems }) => problems ?? []),
    remarks: taken.flatMap(({ remarks }) => remarks ?? []),
    omitted: taken.flatMap(({ omitted }) => omitted ?? []),
    foreignPolicies: [],
    wayObjects: taken.flatMap(({ wayObject }) => wayObject ?? []),
    reading: {
      files: [CLUSTER],
      objects: taken.filter(({ manifest, wayObject }) => (manifest ?? wayObject) !== undefined).length,
      ignored: new Map(),
      unread: new Map(),
      skipped: [],
    },
  };
}

function takeObject(value: unknown, { kind, apiVersion, isPolicy }: Resource): Taken {
  const source = KEPT.has(kind) ? trimmed(value) : undefined;
  const reported = (message: string): ManifestProblem => ({ file: CLUSTER, line: LINE, message, source });
  const verdict = judge(value);
  if (verdict.type === "accepted" && verdict.object.kind === kind) {
    const { object } = verdict;
    const manifest: Manifest = {
      object,
      file: CLUSTER,
      line: LINE,
      lineOf: () => LINE,
      source,
      ...withHostPorts(object, value),
    };
    const messages = verdict.problems.map(reported);
    if (!isPolicy) return { manifest, omitted: messages };
    return verdict.problems.every(isExperimental) ? { manifest, remarks: messages } : { problems: messages };
  }
  const message =
    verdict.type === "refused" ? verdict.problem : `an object that is not of kind ${kind} of ${apiVersion}`;
  return isPolicy ? { problems: [reported(message)] } : { omitted: [reported(`${message} (omitted)`)] };
}

function takeWayObject(value: unknown): Taken {
  const object = readWayObject(value);
  if (typeof object === "string") return noWayIn(object);
  return { wayObject: { object, file: CLUSTER, line: LINE, lineOf: () => LINE, source: trimmed(value) } };
}

function noWayIn(why: string): Taken {
  return { omitted: [{ file: CLUSTER, line: LINE, message: `${why} ${NO_WAY_IN}` }] };
}

/** Returns an object without the record of who wrote which field, the larger half of many objects. */
function trimmed(value: unknown): unknown {
  if (!isObject(value) || !isObject(value["metadata"])) return value;
  const { managedFields: _, ...metadata } = value["metadata"];
  return { ...value, metadata };
}
