import { type Family, parseAddress } from "../../../../kernel/ip/address.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { POLICY_SETS } from "../../../../policyd/policies/compile/policy_table.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import type { Direction, FlowEnd } from "../../../../objects/semantics/policies/flow.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../../evaluate/store.ts";
import { CompiledCluster } from "../compiled_cluster.ts";
import { type Neighbour, podObject } from "../first_packet/coming_pod.ts";
import { indexOf } from "../question.ts";

type Labels = Readonly<Record<string, string>>;

/** Names that every JavaScript object seems to have as members. */
const MEMBERS = ["constructor", "toString", "hasOwnProperty", "valueOf"] as const;
const APPS = ["web", "db", "constructor"] as const;
export const NAMESPACES = ["one", "two", "three", "constructor"] as const;
export const PORTS = [7001, 7002] as const;
const SENTINEL_NAMESPACE = "zz-sentinel";
export const SENTINEL = "sentinel";
const MOST_POLICIES = 8;
/** The number of pods of another node, so that policies have hundreds of elements, and a change may write as many. */
const OTHERS = 300;

/** A pod of the cluster, and its node. */
export interface TurmoilPod {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Labels;
  /** For the evaluator, which has all pods at once: on the node a later pod gets those of one that has gone. */
  readonly addresses: Neighbour["addresses"];
}

/** The objects at one time. */
export interface TurmoilState {
  readonly number: number;
  readonly namespaces: ReadonlyMap<string, Labels>;
  readonly pods: ReadonlyMap<string, TurmoilPod>;
  readonly policies: ReadonlyMap<string, object>;
}

/** Generates random objects, and random changes of one of them at a time. */
export class TurmoilObjects {
  readonly #random: () => number;
  #policyNumber = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  begin(count: number): TurmoilState {
    const namespaces = new Map(NAMESPACES.map((name) => [name as string, this.#labels()]));
    const pods = Array.from({ length: count }, (_, index): TurmoilPod => {
      const namespace = index === 0 ? SENTINEL_NAMESPACE : this.#one(NAMESPACES);
      const addresses = {
        4: parseAddress(`10.245.${index >> 8}.${index & 255}`),
        6: parseAddress(`fd00:245::${index.toString(16)}`),
      };
      return { name: index === 0 ? SENTINEL : `p${index}`, namespace, labels: this.#labels(), addresses };
    });
    namespaces.set(SENTINEL_NAMESPACE, {});
    const policies = Array.from({ length: MOST_POLICIES }, () => this.#policy());
    return { number: 0, namespaces, pods: new Map(pods.map((pod) => [pod.name, pod])), policies: new Map(policies) };
  }

  /** Changes the labels of a pod or a namespace, or adds or removes a policy. */
  change(state: TurmoilState): TurmoilState {
    const number = state.number + 1;
    const kind = this.#random();
    if (kind < 0.3) {
      const [, ...others] = [...state.pods.values()];
      const pod = this.#one(others);
      return { ...state, number, pods: new Map(state.pods).set(pod.name, { ...pod, labels: this.#labels() }) };
    }
    if (kind < 0.45) {
      return { ...state, number, namespaces: new Map(state.namespaces).set(this.#one(NAMESPACES), this.#labels()) };
    }
    const policies = new Map(state.policies);
    const names = [...policies.keys()];
    const [name, policy] = this.#policy();
    const kindOfChange = this.#random();
    // One object changes at a time: of two, one would be in force before the other.
    if (names.length >= MOST_POLICIES || (names.length > 0 && kindOfChange < 0.4)) policies.delete(this.#one(names));
    else policies.set(name, policy);
    return { ...state, number, policies };
  }

  #policy(): [string, object] {
    const name = `policy-${++this.#policyNumber}`;
    return [name, this.#random() < 0.25 ? this.#clusterPolicy(name) : this.#networkPolicy(name)];
  }

  #networkPolicy(name: string): object {
    const rules = (key: "from" | "to"): readonly object[] =>
      Array.from({ length: Math.floor(this.#random() * 3) }, () => ({
        ...(this.#random() < 0.8 ? { [key]: [this.#peer()] } : {}),
        ...(this.#random() < 0.6 ? { ports: [{ protocol: "UDP", port: this.#one(PORTS) }] } : {}),
      }));
    const types = this.#one([["Ingress"], ["Egress"], ["Ingress", "Egress"]] as const);
    return {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name, namespace: this.#one(NAMESPACES) },
      spec: { podSelector: this.#selector(), policyTypes: types, ingress: rules("from"), egress: rules("to") },
    };
  }

  #clusterPolicy(name: string): object {
    const peer = { pods: { namespaceSelector: this.#selector(), podSelector: this.#selector() } };
    const action = this.#one(["Accept", "Deny", "Pass"] as const);
    const isIngress = this.#random() < 0.5;
    return {
      apiVersion: "policy.networking.k8s.io/v1beta1",
      kind: "ClusterNetworkPolicy",
      metadata: { name },
      spec: {
        tier: this.#one(["Admin", "Baseline"] as const),
        priority: this.#policyNumber % 100,
        subject: { namespaces: this.#selector() },
        [isIngress ? "ingress" : "egress"]: [{ name: "rule", action, [isIngress ? "from" : "to"]: [peer] }],
      },
    };
  }

  #peer(): object {
    const kind = this.#random();
    if (kind < 0.4) return { podSelector: this.#selector() };
    if (kind < 0.7) return { namespaceSelector: this.#selector() };
    return { namespaceSelector: this.#selector(), podSelector: this.#selector() };
  }

  #selector(): object {
    const kind = this.#random();
    if (kind < 0.2) return {};
    if (kind < 0.5) return { matchLabels: { app: this.#one(APPS) } };
    const operator = this.#one(["Exists", "DoesNotExist", "In", "NotIn"] as const);
    const values = operator.endsWith("In") ? { values: [this.#one(APPS), "native"] } : {};
    return { matchExpressions: [{ key: this.#one(MEMBERS), operator, ...values }] };
  }

  #labels(): Labels {
    const names = MEMBERS.filter(() => this.#random() < 0.25);
    return Object.fromEntries(["app", ...names].map((key): [string, string] => [key, this.#one(APPS)]));
  }

  #one<T>(all: readonly T[]): T {
    const found = all[Math.floor(this.#random() * all.length)];
    if (found === undefined) throw new RangeError("one of none");
    return found;
  }
}

const OTHER_PODS = Array.from({ length: OTHERS }, (_, index) =>
  podObject(NAMESPACES[index % NAMESPACES.length] ?? "", `other-${index}`, {
    labels: { app: APPS[index % APPS.length] ?? "" },
    nodeName: "node2",
    addresses: {
      4: parseAddress(`10.246.${index >> 8}.${index & 255}`),
      6: parseAddress(`fd00:246::${index.toString(16)}`),
    },
  }),
);

/**
 * Returns the manifests of a state. @param hasAddresses for the evaluator; the daemon learns the addresses from the
 * pods' ADD
 */
export function manifestsOf(state: TurmoilState, hasAddresses: boolean): readonly object[] {
  return [
    ...[...state.namespaces].map(([name, labels]) => ({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name, labels },
    })),
    ...[...state.pods.values()].map(({ namespace, name, labels, addresses }) =>
      podObject(namespace, name, { labels, ...(hasAddresses ? { addresses } : {}) }),
    ),
    ...OTHER_PODS,
    ...state.policies.values(),
    sentinelPolicy(state.number),
  ];
}

/** Returns the last object that is read with a change: when it is in force, the others are. */
function sentinelPolicy(number: number): object {
  const cidr = `10.255.${number >> 8}.${number & 255}/32`;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "zz-sentinel", namespace: SENTINEL_NAMESPACE },
    spec: { podSelector: {}, policyTypes: ["Ingress"], ingress: [{ from: [{ ipBlock: { cidr } }] }] },
  };
}

/** Returns the chain of the sentinel's ingress, which shows that a state is in force. */
export function sentinelChain(state: TurmoilState): string {
  const { elements } = new CompiledCluster(storeOf(manifestsOf(state, true)), DEFAULT_POLICY_OPTIONS).node("node1");
  const address = state.pods.get(SENTINEL)?.addresses[4];
  const verdict = elements.get(`${POLICY_SETS.ingress}4`)?.find(({ key }) => key[0] === address)?.data;
  if (verdict === undefined || !("chain" in verdict)) throw new RangeError("no policy isolates the sentinel");
  return verdict.chain;
}

/** Decides whether policies allow packets, by the states that may have been in force when they were sent. */
export class TurmoilJudge {
  readonly #indexes = new Map<number, PolicyIndex>();

  /**
   * Whether a packet may have passed: each end allows it in one of the states, which need not be the same, since a
   * change is in force at one end before it is at the other.
   *
   * @param source a pod's name; undefined for a sender outside of the cluster
   */
  mayPass(
    states: readonly TurmoilState[],
    { source, destination, family, port }: JudgedPacket,
  ): Readonly<Record<Direction, boolean>> {
    const may = { egress: false, ingress: false };
    for (const state of states) {
      const from: FlowEnd = source === undefined ? { type: "address", address: OUTSIDE[family] } : endOf(state, source);
      const flow = { source: from, destination: endOf(state, destination), family, protocol: "UDP", port } as const;
      const verdict = evaluatePolicy(this.#indexOf(state), flow);
      if (verdict.kind === "impossible") continue;
      may.egress ||= verdict.egress.isAllowed;
      may.ingress ||= verdict.ingress.isAllowed;
    }
    return may;
  }

  #indexOf(state: TurmoilState): PolicyIndex {
    const known = this.#indexes.get(state.number) ?? indexOf(manifestsOf(state, true));
    this.#indexes.set(state.number, known);
    this.#indexes.delete(state.number - KEPT_INDEXES);
    return known;
  }
}

/** A datagram by its ends' names. */
export interface JudgedPacket {
  readonly source: string | undefined;
  readonly destination: string;
  readonly family: Family;
  readonly port: number;
}

const KEPT_INDEXES = 16;
const OUTSIDE = { 4: parseAddress("192.0.2.1"), 6: parseAddress("2001:db8::1") } as const;

function endOf({ pods }: TurmoilState, name: string): FlowEnd {
  const pod = pods.get(name);
  if (pod === undefined) throw new RangeError(`no pod ${name}`);
  return { type: "pod", key: `${pod.namespace}/${name}` };
}
