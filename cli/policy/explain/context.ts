import { type Address, type Family, familyOf } from "../../../kernel/ip/address.ts";
import type { Node, Pod } from "../../../objects/model.ts";
import { ZONE_LABEL } from "../../../objects/name.ts";
import { type Cluster, nodeAddress, podAddress } from "../../cluster/cluster.ts";
import { type Host, hostName, nodeOf } from "../../cluster/find_end.ts";
import { serviceObjects } from "../../cluster/service_objects.ts";
import { ServiceWorlds } from "../../cluster/service_world.ts";
import { type ClassifiedPod, classifiedPods } from "../connections/pair_table.ts";
import { nodePlace } from "../node_place.ts";
import type { PolicyInput } from "../policy_input.ts";
import { type WaysIn, waysInto } from "../../ways_in/ways_in.ts";

/** The most hosts that are all evaluated; of more, only those that policies distinguish. */
export const MOST_HOSTS = 16;

/** Names of the nodes on which a pod's location makes a difference. */
export type NodesThatMatter = "all" | ReadonlySet<string>;

/** A host, with its port where each host may have another one. */
interface FewEnd {
  readonly host: Host;
  readonly port?: number;
}

/** A cluster with everything needed to find the ways through it. */
export class ExplainContext {
  readonly cluster: Cluster;
  readonly worlds: ServiceWorlds;
  /** Empty where no command asks for them. */
  readonly waysIn: WaysIn;
  #placeOf: ReturnType<typeof nodePlace> | undefined;
  readonly #nodeKinds = new Map<string, string>();
  #classes: ReadonlyMap<string, ClassifiedPod> | undefined;

  /**
   * @param settings how nodes serve Services; policyd's defaults without them
   * @param input.wayObjects the objects by which connections come in from outside; none unless given
   * @throws DrawbridgeError ERR_INPUT as serviceObjects
   */
  constructor(
    cluster: Cluster,
    { settings, wayObjects = [], given = [] }: Partial<Pick<PolicyInput, "settings" | "wayObjects" | "given">> = {},
  ) {
    this.cluster = cluster;
    this.worlds = new ServiceWorlds(cluster, serviceObjects(cluster), settings);
    this.waysIn = waysInto(wayObjects, cluster, this.worlds.objects, given);
  }

  /** Returns a host's address in a family, real or a stand-in; undefined where it has none of that family. */
  addressOf(host: Host, family: Family): Address | undefined {
    if (host.type === "pod") return podAddress(this.cluster, host.pod, family);
    if (host.type === "node" && host.address === undefined) return nodeAddress(this.cluster, host.name, family);
    return host.address !== undefined && familyOf(host.address) === family ? host.address : undefined;
  }

  /**
   * Returns all of some hosts or, of many, two of each kind that policies distinguish, to represent the others.
   *
   * @param matters the nodes on which a pod is of a different kind than elsewhere
   */
  few<T>(all: readonly T[], endOf: (one: T) => FewEnd, matters: NodesThatMatter): readonly T[] {
    if (all.length <= MOST_HOSTS) return all;
    const seen = new Map<string, number>();
    return all.filter((one) => {
      const { host, port } = endOf(one);
      const node = nodeOf(host) ?? "";
      const kind = `${this.kindOf(host)} at ${port}`;
      const key = matters === "all" || matters.has(node) ? `${kind} on ${node}` : kind;
      const count = seen.get(key) ?? 0;
      seen.set(key, count + 1);
      return count < 2;
    });
  }

  /** Returns a text that is equal for pods that policies do not tell apart, and for nothing else. */
  kindOf(host: Host): string {
    return host.type === "pod" ? this.#classOf(host.pod) : `${hostName(host)} ${host.address ?? ""}`;
  }

  /** Returns a text that is equal for nodes that policies do not tell apart as sources and that are in one zone. */
  nodeKindOf(node: Node): string {
    this.#placeOf ??= nodePlace(this.cluster.index);
    const kind = this.#nodeKinds.get(node.name) ?? `${node.labels[ZONE_LABEL] ?? ""} ${this.#placeOf(node)}`;
    this.#nodeKinds.set(node.name, kind);
    return kind;
  }

  #classOf({ key }: Pod): string {
    this.#classes ??= classifiedPods(this.cluster.index);
    return `class ${this.#classes.get(key)?.classNumber ?? key}`;
  }
}
