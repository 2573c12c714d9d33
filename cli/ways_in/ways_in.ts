import type { Labels, Pod } from "../../objects/model.ts";
import { nameLabel } from "../../objects/name.ts";
import { printable, shortList } from "../../objects/printable.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ServiceObjects } from "../cluster/service_objects.ts";
import { locationText } from "../input/place.ts";
import type { Io } from "../io.ts";
import { type EndpointOf, endpointsOf } from "./backend_pods.ts";
import type { GivenController } from "./controller_option.ts";
import {
  type Backend,
  type Gateway,
  type Ingress,
  type Listener,
  type PlacedWayObject,
  type Route,
  type WayObject,
  wayObjectName,
} from "../input/ways/way_object.ts";
import { type ControllerPods, podsOfController, podsOfGateway, usualController } from "./controllers.ts";

/** A way by which outside connections reach pods: an Ingress or a route of a Gateway, with its controller's pods. */
export interface WayIn {
  /** `Ingress shop/web`, `HTTPRoute shop/api`. */
  readonly name: string;
  readonly placed: PlacedWayObject;
  /** The object that names its controller: `IngressClass nginx`, `Gateway infra/public`. */
  readonly through: string;
  /** The pods that forward requests; at least one. */
  readonly controllers: readonly Pod[];
  readonly backends: readonly WayBackend[];
}

/** A Service that a way leads to, with its endpoints. */
export interface WayBackend extends Backend {
  /** At least one; empty only in a way that is not evaluated, where they are not known. */
  readonly endpoints: readonly EndpointOf[];
}

/** A way that is not evaluated. */
export interface UnevaluatedWay extends Pick<WayIn, "name" | "placed" | "backends"> {
  /** As of {@link WayIn}; undefined where the reason is the same for every class and Gateway. */
  readonly through: string | undefined;
  readonly why: string;
  /** Whether its controller is known to send from outside of the cluster. */
  readonly isFromOutside: boolean;
}

export interface WaysIn {
  readonly ways: readonly WayIn[];
  readonly unevaluated: readonly UnevaluatedWay[];
  /** Why some ways are not evaluated, a line each. */
  readonly doubts: readonly string[];
}

export const NO_WAYS_IN: WaysIn = Object.freeze({ ways: [], unevaluated: [], doubts: [] });

/** The largest number of names in a line. */
const MOST_NAMED = 5;

/** The class or Gateway that a way leads through, or why it is not known. */
type Through =
  | { readonly through: string; readonly pods: readonly Pod[] }
  | { readonly through: string; readonly doubt: string; readonly isFromOutside?: true };

/**
 * Returns the ways into a cluster by its Ingresses and the routes of its Gateways.
 *
 * A way whose controller's pods are not known is omitted, and reported as a doubt.
 *
 * @param given the controllers' pods that the command line names. Those named for a class take precedence over known
 *   labels; those named without a class are used only where labels find none
 */
export function waysInto(
  objects: readonly PlacedWayObject[],
  cluster: Cluster,
  services: ServiceObjects,
  given: readonly GivenController[] = [],
): WaysIn {
  if (objects.length === 0) return NO_WAYS_IN;
  const finder = new WayFinder(objects, cluster, given);
  const ways: WayIn[] = [];
  const unevaluated: UnevaluatedWay[] = [];
  for (const placed of objects) {
    const { object } = placed;
    if (object.kind !== "Ingress" && object.kind !== "HTTPRoute" && object.kind !== "GRPCRoute") continue;
    if ("parents" in object && object.parents.length === 0) continue;
    const name = wayObjectName(object);
    const backends = object.backends.flatMap((backend): readonly WayBackend[] => {
      const refusal = finder.refusalOf(object, backend);
      const endpoints = refusal ?? endpointsOf(cluster, services, backend);
      if (typeof endpoints !== "string") return [{ ...backend, endpoints }];
      const without = [{ ...backend, endpoints: [] }];
      unevaluated.push({ name, placed, through: undefined, backends: without, why: endpoints, isFromOutside: false });
      return [];
    });
    if (backends.length === 0) continue;
    for (const found of finder.throughs(object)) {
      const { through } = found;
      if ("doubt" in found) {
        const { doubt: why, isFromOutside = false } = found;
        unevaluated.push({ name, placed, through, backends, why, isFromOutside });
      } else ways.push({ name, placed, through, controllers: found.pods, backends });
    }
  }
  return { ways, unevaluated, doubts: doubtsOf(unevaluated) };
}

/** Returns the reasons, each with the objects that it is about. */
export function doubtsOf(unevaluated: readonly UnevaluatedWay[]): readonly string[] {
  return [...Map.groupBy(unevaluated, ({ why }) => why)].map(([why, some]) => {
    const names = new Set(some.map(({ name, placed: { file, line } }) => `${name} (${locationText(file, line)})`));
    return `no way in is judged by ${shortList([...names], MOST_NAMED)}: ${why}`;
  });
}

/** Prints why some ways are not evaluated. @param label comes before each: `old: ` */
export function tellUnjudged({ err }: Pick<Io, "err">, doubts: readonly string[], label = ""): void {
  for (const doubt of doubts) err.write(`${label}${printable(doubt)}\n`);
}

/** Finds the classes and Gateways that Ingresses and routes lead through. */
class WayFinder {
  readonly #all: readonly WayObject[];
  readonly #pods: readonly Pod[];
  readonly #namespaces: ReadonlyMap<string, { readonly labels: Labels }>;
  readonly #given: readonly GivenController[];
  readonly #controllers = new Map<string, ControllerPods>();

  constructor(objects: readonly PlacedWayObject[], { store }: Cluster, given: readonly GivenController[]) {
    this.#all = objects.map(({ object }) => object);
    this.#pods = [...store.pods.values()].filter((pod) => !isFinished(pod));
    this.#namespaces = store.namespaces;
    this.#given = given;
  }

  throughs(object: Ingress | Route): readonly Through[] {
    return object.kind === "Ingress" ? [this.#throughClass(object)] : this.#throughGateways(object);
  }

  /** Returns why a way by a backend is not judged, such as a Service of another namespace; undefined where it is. */
  refusalOf(object: Ingress | Route, { namespace, kind, service }: Backend): string | undefined {
    if (kind !== "Service") return `where the ${kind} ${namespace}/${service} leads is not known`;
    if (namespace === object.namespace) return undefined;
    const isGranted = this.#all.some(
      (one) =>
        one.kind === "ReferenceGrant" &&
        one.namespace === namespace &&
        one.from.some((from) => from.kind === object.kind && from.namespace === object.namespace) &&
        one.to.some((name) => name === undefined || name === service),
    );
    if (isGranted) return undefined;
    return `no ReferenceGrant of ${namespace} lets a ${object.kind} of ${object.namespace} use its Service ${service}`;
  }

  #throughClass({ className }: Ingress): Through {
    const classes = this.#all.filter((one) => one.kind === "IngressClass");
    const found = classes.find(({ name, isDefault }) => (className === undefined ? isDefault : name === className));
    const name = className ?? found?.name;
    const controller = found?.controller ?? (name === undefined ? undefined : usualController(name));
    const through = name === undefined ? "an Ingress without a class" : printable(`IngressClass ${name}`);
    const given = name === undefined ? [] : this.#givenFor(name);
    if (given.length > 0) return { through, pods: given };
    if (name === undefined) return this.#unknown(through, "no class is named, and no IngressClass is the default");
    if (controller === undefined) return this.#unknown(through, `the IngressClass ${name} was not read`);
    return this.#byController(through, controller);
  }

  #throughGateways(route: Route): readonly Through[] {
    return route.parents.map((parent): Through => {
      const gateway = this.#all.find(
        (one) => one.kind === "Gateway" && one.namespace === parent.namespace && one.name === parent.name,
      );
      const key = `${parent.kind} ${parent.namespace}/${parent.name}`;
      if (parent.kind !== "Gateway") return { through: key, doubt: `through which pods the ${key} leads is not known` };
      if (gateway?.kind !== "Gateway") return { through: key, doubt: `the ${key} was not read` };
      const named = gateway.listeners.filter(
        ({ name, port }) => (parent.sectionName ?? name) === name && (parent.port ?? port) === port,
      );
      if (!named.some((listener) => this.#takes(gateway, listener, route))) {
        return { through: key, doubt: `no listener of the ${key} takes ${route.kind}s of ${route.namespace}` };
      }
      return this.#throughGateway(gateway, key);
    });
  }

  #throughGateway(gateway: Gateway, through: string): Through {
    const given = this.#givenFor(gateway.className);
    if (given.length > 0) return { through, pods: given };
    const own = podsOfGateway(gateway, this.#pods);
    if (own.length > 0) return { through, pods: own };
    const found = this.#all.find((one) => one.kind === "GatewayClass" && one.name === gateway.className);
    const controller = found?.kind === "GatewayClass" ? found.controller : usualController(gateway.className);
    if (controller === undefined) return this.#unknown(through, `the GatewayClass ${gateway.className} was not read`);
    return this.#byController(through, controller);
  }

  #byController(through: string, controller: string): Through {
    const known = this.#controllers.get(controller) ?? podsOfController(controller, this.#pods);
    this.#controllers.set(controller, known);
    if (known.type === "outside") {
      const doubt = `the controller ${controller} sends from outside of the cluster; the outside stands for it`;
      return { through, doubt, isFromOutside: true };
    }
    if (known.type === "unknown")
      return this.#unknown(through, `the pods of the controller ${controller} are not known`);
    if (known.pods.length === 0) return this.#unknown(through, `no pod of the controller ${controller} was read`);
    return { through, pods: known.pods };
  }

  /** Returns the pods that the command line names without a class, for a controller that is not known otherwise. */
  #unknown(through: string, why: string): Through {
    const pods = this.#givenFor(undefined);
    return pods.length > 0 ? { through, pods } : { through, doubt: `${why}; ${WAY_OUT}` };
  }

  /** Returns the pods that the command line names for a class; undefined stands for those named without one. */
  #givenFor(className: string | undefined): readonly Pod[] {
    const given = this.#given.filter((one) => one.className === className);
    return this.#pods.filter((pod) => given.some(({ isChosen }) => isChosen(pod)));
  }

  /** Returns whether a Gateway's listener takes a route; the host names of the two are not compared. */
  #takes({ namespace }: Gateway, { protocol, from, kinds }: Listener, route: Route): boolean {
    if (kinds.length > 0 && !kinds.includes(route.kind)) return false;
    if (["TCP", "UDP", "TLS"].includes(protocol)) return false;
    if (from === "All" || from === "None") return from === "All";
    if (from === "Same") return route.namespace === namespace;
    return selects(from, this.#namespaces.get(route.namespace)?.labels ?? nameLabel(route.namespace));
  }
}

const WAY_OUT = "--ingress-controller NAMESPACE/NAME names the controller's pods";
