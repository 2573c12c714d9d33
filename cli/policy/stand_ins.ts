import type { Address } from "../../kernel/ip/address.ts";
import type { ClusterObject, Labels, LabelSelector, Namespace, Pod } from "../../objects/model.ts";
import { frozenLabels, NAMESPACE_NAME } from "../../objects/name.ts";
import { keysOf, selects } from "../../objects/semantics/policies/selector.ts";
import { bareNode } from "../cluster/cluster.ts";
import { labelsText } from "../output/text.ts";
import { labelClasses } from "./label_classes.ts";
import type { NewAddresses } from "./new_addresses.ts";
import { distinct, type KnownPod, PolicyChange, type PortForm } from "./policy_change.ts";

/** Pods, namespaces and nodes that no file has, and that policies would tell apart. */
export interface StandIns {
  readonly objects: readonly ClusterObject[];
  /** By the key of a pod or the name of a node. */
  readonly names: ReadonlyMap<string, StandInName>;
  /** False where they would be too many, so that some are left out. */
  readonly isComplete: boolean;
}

export interface StandInName {
  /** Such as `new pod in shop with app=web`. */
  readonly text: string;
  /** The namespace, or words for one that no file has. */
  readonly namespace: string;
  readonly isInFiles: boolean;
  /** Whether a pod in the files has its labels, or several selectors select it, of which each has a stand-in. */
  readonly isMinor: boolean;
  /** Those of the pod and, for a namespace that no file has, of the namespace. */
  readonly labels: Labels;
}

export const NO_STAND_INS: StandIns = Object.freeze({ objects: [], names: new Map(), isComplete: true });

/** Begins the name of a namespace that no file has. As in all names of stand-ins, `_` is in no name of an object. */
export const NEW_NAMESPACE = "drawbridge_new-namespace-";
const MOST_IN_NAMESPACE = 1000;
const MOST = 2000;
const MOST_WHOLE = 20_000;
const NO_LABELS: Labels = frozenLabels([]);
/** Two of each class, since a pod always reaches itself. */
const TWO = [0, 1] as const;

/**
 * Returns stand-ins for all pods that are in no file and whose connections a change of policies or of namespaces' labels
 * may affect: for each class of pods that the policies of the two sides tell apart, in each namespace and in other ones.
 * Classes of which both sides have two pods already, with addresses of which the policies say the same, are left out,
 * and all where nothing changes.
 *
 * @param isWhole whether to make stand-ins for all classes, also those of which both sides have pods
 *
 * A namespace that is written on one side only, beside others on the other side, is new or gone, and so are its pods.
 */
export function standInsFor(
  before: readonly ClusterObject[],
  after: readonly ClusterObject[],
  isWhole = false,
): StandIns {
  const change = new PolicyChange(before, after);
  if (!change.isAny) return NO_STAND_INS;
  const made = new Made(change, isWhole);
  const hosts = new Set(
    [...before, ...after].flatMap((one) => (one.kind === "Pod" && one.hostNetwork ? (one.nodeName ?? []) : [])),
  );
  for (const labels of made.some(change.otherNamespaces())) {
    const { [NAMESPACE_NAME]: name, ...others } = labels;
    const isNamed = change.namesNamespace(name ?? "");
    const text = namespaceText(isNamed ? labels : others);
    const inPlay = change.inOther(labels);
    const selectors = distinct(inPlay.map(({ pods }) => pods));
    const place = { name: made.namespace(labels), text, labels: isNamed ? labels : others };
    made.pods(
      place,
      labelClasses(selectors, MOST_IN_NAMESPACE),
      (one) => !isWhole && isCombined(selectors, one),
      (one) => change.portForms(inPlay, one),
    );
  }
  for (const name of change.namespaces) {
    const selections = change.inNamespace(name);
    const selectors = distinct(selections.map(({ pods }) => pods));
    const vectorOf = rememberedByText((labels: Labels) =>
      selectors.map((one) => (selects(one, labels) ? "1" : "0")).join(""),
    );
    const known = Map.groupBy(change.podsIn(name), ({ pod }) => vectorOf(pod.labels));
    const thereAs = (labels: Labels): readonly KnownPod[] => known.get(vectorOf(labels)) ?? [];
    const ports = change.namedPorts(selections);
    const isAsNew = ({ pod }: KnownPod): boolean =>
      ports.every((port) => pod.ports.some((one) => isSamePort(one, port))) && change.addresses.isAsNew(pod);
    const isShown = (labels: Labels): boolean => {
      const there = thereAs(labels);
      const asNew = there.filter(isAsNew);
      const nodes = new Set(asNew.map(({ pod }) => pod.nodeName));
      // A pod in a node's network reaches the pods of its node whatever policies say, and new pods may be on others.
      const areSeen = asNew.length > 1 && (nodes.size > 1 || !hosts.has(asNew[0]?.pod.nodeName ?? ""));
      return !isWhole && (areSeen || !there.every(({ isOnBoth }) => isOnBoth));
    };
    const formsOf = (labels: Labels): readonly PortForm[] =>
      change.portForms(selections, labels).filter(({ text }) => text !== "" || !isShown(labels));
    const classes = change
      .withoutUnions(name, labelClasses(selectors, MOST_IN_NAMESPACE))
      ?.filter((labels) => formsOf(labels).length > 0);
    const isMinor = (labels: Labels): boolean =>
      thereAs(labels).length > 0 || (!isWhole && isCombined(selectors, labels));
    made.pods({ name, text: name, labels: undefined }, classes, isMinor, formsOf);
  }
  made.nodes(change.otherNodes());
  return made.all();
}

/** A namespace for stand-ins. */
interface Place {
  readonly name: string;
  /** For people. */
  readonly text: string;
  /** The labels of one that no file has. */
  readonly labels: Labels | undefined;
}

/** The stand-ins made so far. */
class Made {
  readonly #new: NewAddresses;
  #addresses: readonly Address[];
  readonly #objects: ClusterObject[] = [];
  readonly #names = new Map<string, StandInName>();
  readonly #isWhole: boolean;
  readonly #most: number;
  #isComplete = true;

  constructor(change: PolicyChange, isWhole: boolean) {
    this.#new = change.addresses;
    this.#addresses = change.addresses.after();
    this.#isWhole = isWhole;
    this.#most = isWhole ? MOST_WHOLE : MOST;
  }

  /** Returns classes; where they are too many, which it notes, only the one without labels, for whole answers. */
  some(classes: readonly Labels[] | undefined): readonly Labels[] {
    if (classes !== undefined && this.#objects.length + classes.length <= this.#most) return classes;
    this.#isComplete = false;
    return this.#isWhole ? [NO_LABELS] : [];
  }

  namespace(labels: Labels): string {
    const name = `${NEW_NAMESPACE}${this.#objects.length}`;
    this.#objects.push(newNamespace(name, labels));
    return name;
  }

  pods(
    { name: namespace, text: place, labels: ofPlace }: Place,
    classes: readonly Labels[] | undefined,
    isMinor: (labels: Labels) => boolean,
    formsOf: (labels: Labels) => readonly PortForm[],
  ): void {
    const forms = this.some(classes).flatMap((labels) => formsOf(labels).map((form) => ({ labels, form })));
    if (this.#objects.length + forms.length > this.#most) this.#isComplete = false;
    const isRoom = this.#isComplete;
    for (const { labels, form } of forms.filter((one) => isRoom || one.form.text === "")) {
      const words = labelsText(labels);
      const text = `new pod in ${place}${words === "" ? "" : ` with ${words}`}${form.text}`;
      for (const _ of TWO) {
        const name = `drawbridge_new-pod-${this.#objects.length}`;
        const pod: Pod = { ...newPod(namespace, name, labels), ports: form.ports, addresses: this.#addresses };
        this.#addresses = this.#new.after(this.#addresses);
        this.#objects.push(pod);
        const all = { ...labels, ...form.labels, ...prefixed(ofPlace ?? {}) };
        this.#names.set(pod.key, {
          text,
          namespace: place,
          isInFiles: ofPlace === undefined,
          isMinor: form.text === "" ? isMinor(labels) : !this.#isWhole,
          labels: all,
        });
      }
    }
  }

  nodes(classes: readonly Labels[] | undefined): void {
    for (const labels of this.some(classes)) {
      const words = labelsText(labels);
      const node = bareNode(`drawbridge_new-node-${this.#objects.length}`);
      this.#objects.push({ ...node, labels: frozenLabels(Object.entries(labels)) });
      const text = `new node${words === "" ? "" : ` with ${words}`}`;
      this.#names.set(node.name, { text, namespace: "", isInFiles: false, isMinor: false, labels });
    }
  }

  all(): StandIns {
    return { objects: this.#objects, names: this.#names, isComplete: this.#isComplete };
  }
}

/** Returns labels of a namespace under keys that no pod has. */
function prefixed(labels: Labels): Labels {
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [`namespace ${key}`, value]));
}

/** Returns whether several selectors with requirements select labels. */
function isCombined(selectors: readonly LabelSelector[], labels: Labels): boolean {
  return selectors.filter((one) => keysOf(one).length > 0 && selects(one, labels)).length > 1;
}

/** Returns the same function, which computes its result once for equal labels. */
function rememberedByText(compute: (labels: Labels) => string): (labels: Labels) => string {
  const results = new Map<string, string>();
  return (labels) => {
    const text = JSON.stringify(labels);
    const known = results.get(text) ?? compute(labels);
    results.set(text, known);
    return known;
  };
}

function isSamePort(a: Pod["ports"][number], b: Pod["ports"][number]): boolean {
  return a.name === b.name && a.protocol === b.protocol && a.port === b.port;
}

/** Returns a running pod without addresses. */
function newPod(namespace: string, name: string, labels: Labels): Pod {
  return {
    kind: "Pod",
    key: `${namespace}/${name}`,
    name,
    namespace,
    uid: "",
    staticUid: undefined,
    labels: frozenLabels(Object.entries(labels)),
    annotations: frozenLabels([]),
    controller: undefined,
    addresses: [],
    nodeName: undefined,
    hostNetwork: false,
    phase: "Running",
    isTerminating: false,
    ports: [],
  };
}

function newNamespace(name: string, labels: Labels): Namespace {
  return {
    kind: "Namespace",
    key: name,
    name,
    uid: "",
    labels: frozenLabels(Object.entries(labels)),
    isTerminating: false,
  };
}

function namespaceText(labels: Labels): string {
  const text = labelsText(labels);
  return text === "" ? "any other namespace" : `a namespace with ${text}`;
}
