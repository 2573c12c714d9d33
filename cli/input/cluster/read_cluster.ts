import { judge } from "../../../objects/gate/gate.ts";
import type { Manifest, ManifestProblem, Manifests } from "../manifests.ts";
import { isExperimental, KEPT, NO_WAY_IN, withHostPorts } from "../objects/take.ts";
import { CLUSTER } from "../place.ts";
import type { ClusterAccess } from "./access.ts";
import { listAll } from "./list.ts";
import { type ApiServer, NoAnswer, type ObjectInput } from "./object_input.ts";
import { type Resource, RESOURCES, WAY_RESOURCES } from "./resources.ts";
import { readWayObject } from "../ways/read.ts";
import type { PlacedWayObject } from "../ways/way_object.ts";
import { isObject } from "../../../objects/gate/reader.ts";
import { Buffer } from "node:buffer";
import { listAt, textAt } from "../raw.ts";

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

/** The API groups of policies that are not read, by group or group and version. */
const GROUPS: ReadonlyMap<string, string> = new Map([
  ["cilium.io", "Cilium's policies"],
  ["crd.projectcalico.org", "Calico's policies"],
  ["projectcalico.org", "Calico's policies"],
  ["crd.antrea.io", "Antrea's policies"],
  ["networking.k8s.aws", "Amazon's ApplicationNetworkPolicies"],
  ["network.openshift.io", "OpenShift's EgressNetworkPolicies"],
  ["kubeovn.io", "Kube-OVN's networks"],
  ["k8s.ovn.org", "OVN-Kubernetes' networks and firewalls"],
  ["security.istio.io", "Istio's AuthorizationPolicies"],
  ["policy.linkerd.io", "Linkerd's policies"],
  ["policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicies"],
]);

/** Returns notes about policies that a cluster may have and that are not read, by one request for its API groups. */
async function otherEngines(server: ApiServer): Promise<readonly string[]> {
  try {
    const { status, body } = await server.get("/apis");
    const groups = status === 200 ? listAt(JSON.parse(Buffer.concat(body).toString()), "groups") : [];
    const names = groups.flatMap((group) => [
      textAt(group, "name"),
      ...listAt(group, "versions").map((version) => textAt(version, "groupVersion")),
    ]);
    const found = new Set(names.flatMap((name) => GROUPS.get(name ?? "") ?? []));
    const unknown =
      status === 200 ? [] : [`/apis: status ${status}: whether there are policies of other engines is not known`];
    return [
      ...unknown,
      ...[...found].map(
        (what) => `the cluster knows ${what}: they are not read, and may deny what is allowed here, or allow more`,
      ),
    ];
  } catch (error) {
    if (!(error instanceof NoAnswer || error instanceof SyntaxError)) throw error;
    return [`/apis: ${error.message}: whether there are policies of other engines is not known`];
  }
}
