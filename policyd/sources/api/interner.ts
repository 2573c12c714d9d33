import type { ClusterObject, ContainerPort, EndpointPort, Labels, ServicePort } from "../../../objects/model.ts";

/**
 * The most characters of the keys of a pool; a full pool starts over, and later values are shared among themselves. So
 * labels that somebody changes all the time do not stay in memory.
 */
const MOST_CHARACTERS = 1024 * 1024;

/**
 * Shares equal parts of many objects, to save memory: the pods of a Deployment have the same labels and ports, and each
 * names its node and its namespace.
 */
export class Interner {
  readonly #texts = new Pool<string>((text) => text);
  readonly #labels = new Pool<Labels>(JSON.stringify);
  readonly #ports = new Pool<readonly ContainerPort[]>(JSON.stringify);
  readonly #servicePorts = new Pool<readonly ServicePort[]>(JSON.stringify);
  readonly #endpointPorts = new Pool<readonly EndpointPort[]>(JSON.stringify);

  /** Returns an equal object with shared parts. */
  intern(object: ClusterObject): ClusterObject {
    switch (object.kind) {
      case "Pod":
        return Object.freeze({
          ...object,
          namespace: this.#texts.share(object.namespace),
          labels: this.#labels.share(object.labels),
          annotations: this.#labels.share(object.annotations),
          nodeName: this.#optional(object.nodeName),
          addresses: exact(object.addresses),
          ports: this.#ports.share(object.ports),
        });
      case "Service":
        return Object.freeze({
          ...object,
          namespace: this.#texts.share(object.namespace),
          annotations: this.#labels.share(object.annotations),
          ports: this.#servicePorts.share(object.ports),
          clusterIps: exact(object.clusterIps),
          externalIps: exact(object.externalIps),
          loadBalancerIngress: exact(object.loadBalancerIngress),
        });
      case "EndpointSlice":
        return Object.freeze({
          ...object,
          namespace: this.#texts.share(object.namespace),
          ports: this.#endpointPorts.share(object.ports),
          endpoints: Object.freeze(
            object.endpoints.map((endpoint) =>
              Object.freeze({ ...endpoint, nodeName: this.#optional(endpoint.nodeName) }),
            ),
          ),
        });
      default:
        return object;
    }
  }

  #optional(text: string | undefined): string | undefined {
    return text === undefined ? undefined : this.#texts.share(text);
  }
}

const NOTHING: readonly never[] = Object.freeze([]);

/** Returns a copy without spare room: a list that was appended to has room for 16 more. All empty lists are one. */
function exact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NOTHING : Object.freeze(list.slice());
}

/** A pool in which equal values share one instance. */
class Pool<T> {
  readonly #known = new Map<string, T>();
  #characters = 0;
  readonly #keyOf: (value: T) => string;

  /** @param keyOf returns equal keys for equal values only */
  constructor(keyOf: (value: T) => string) {
    this.#keyOf = keyOf;
  }

  share(value: T): T {
    const key = this.#keyOf(value);
    const found = this.#known.get(key);
    if (found !== undefined) return found;
    if (this.#characters + key.length > MOST_CHARACTERS) {
      this.#known.clear();
      this.#characters = 0;
    }
    this.#characters += key.length;
    this.#known.set(key, value);
    return value;
  }
}
