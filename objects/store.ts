import type {
  ClusterNetworkPolicy,
  ClusterObject,
  EndpointSlice,
  Kind,
  Namespace,
  NetworkPolicy,
  Node,
  ObjectChange,
  Pod,
  Service,
  ServiceCidr,
} from "./model.ts";

/** The objects in force, by key. */
export class ClusterStore {
  readonly namespaces = new Map<string, Namespace>();
  readonly nodes = new Map<string, Node>();
  readonly pods = new Map<string, Pod>();
  readonly services = new Map<string, Service>();
  readonly endpointSlices = new Map<string, EndpointSlice>();
  readonly networkPolicies = new Map<string, NetworkPolicy>();
  readonly clusterNetworkPolicies = new Map<string, ClusterNetworkPolicy>();
  readonly serviceCidrs = new Map<string, ServiceCidr>();
  readonly #maps: Readonly<Record<Kind, ReadonlyMap<string, ClusterObject> & { delete(key: string): boolean }>> = {
    Namespace: this.namespaces,
    Node: this.nodes,
    Pod: this.pods,
    Service: this.services,
    EndpointSlice: this.endpointSlices,
    NetworkPolicy: this.networkPolicies,
    ClusterNetworkPolicy: this.clusterNetworkPolicies,
    ServiceCIDR: this.serviceCidrs,
  };

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      if (change.type === "delete") this.#maps[change.kind].delete(change.key);
      else this.#set(change.object);
    }
  }

  #set(object: ClusterObject): void {
    switch (object.kind) {
      case "Namespace":
        this.namespaces.set(object.key, object);
        break;
      case "Node":
        this.nodes.set(object.key, object);
        break;
      case "Pod":
        this.pods.set(object.key, object);
        break;
      case "Service":
        this.services.set(object.key, object);
        break;
      case "EndpointSlice":
        this.endpointSlices.set(object.key, object);
        break;
      case "NetworkPolicy":
        this.networkPolicies.set(object.key, object);
        break;
      case "ClusterNetworkPolicy":
        this.clusterNetworkPolicies.set(object.key, object);
        break;
      case "ServiceCIDR":
        this.serviceCidrs.set(object.key, object);
        break;
    }
  }
}
