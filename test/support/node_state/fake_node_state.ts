import type { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import { FORWARDING, type Link } from "../../../kernel/route/link.ts";
import { PORT_FLAGS } from "../../../cni/wiring/wiring.ts";
import type { DesiredBridge, DesiredPort } from "../../../cni/node_state/desired.ts";
import type {
  NodeStateKernel,
  ObservedBridge,
  ObservedPort,
  Scope,
  Step,
  Way,
} from "../../../cni/node_state/observed.ts";

/** The link of the default route. */
const UPLINK = 2;
const FIRST_BRIDGE = 10;
const FIRST_PORT = 20;

/** A fake kernel with one bridge. Each field may be changed, as by another program. */
export class FakeNodeState implements NodeStateKernel {
  bridge: Link | undefined;
  addresses: Cidr[] = [];
  readonly settings = new Map<string, string>();
  readonly ports = new Map<string, ObservedPort>();
  readonly neighbours = new Map<Address, MacAddress>();
  /** Networks with a route to the bridge; an address brings its own. */
  routes: Cidr[] = [];
  /** The effect of another program's route on an address. */
  readonly ways = new Map<Address, Way>();
  /** Returns the error for each step that the kernel refuses. */
  refusal: ((step: Step) => DrawbridgeError | undefined) | undefined;
  /** The scopes that were observed, in order. */
  readonly looks: Scope[] = [];
  readonly steps: Step[] = [];
  #lastBridge = FIRST_BRIDGE;

  /** Makes a kernel in the desired state. */
  constructor(desired: DesiredBridge) {
    for (const [key] of desired.settings) this.settings.set(key, "?");
    let index = FIRST_PORT;
    for (const port of desired.ports.values()) {
      const link = portLink(port, index++);
      this.ports.set(port.name, {
        link,
        entry: undefined,
        filters: { targets: [], hasOthers: port.delay !== undefined },
        delay: port.delay === undefined ? undefined : { index: 100 + index, up: true },
      });
    }
    const [mac] = desired.macs;
    if (mac !== undefined) this.#createBridge(desired.name, mac);
    this.addresses = [...desired.addresses];
    this.routes = [...desired.addresses, ...desired.routes];
    for (const [key, value] of desired.settings) this.settings.set(key, value);
    const bridge = this.bridge?.index ?? 0;
    if (this.bridge !== undefined) this.bridge = { ...this.bridge, up: true, mtu: desired.mtu ?? this.bridge.mtu };
    for (const port of desired.ports.values()) {
      const found = this.ports.get(port.name)?.link?.index ?? 0;
      this.#attach({ index: found, bridge, port });
      this.#lead(port, bridge, true);
      for (const address of port.addresses) this.neighbours.set(address, port.podMac);
    }
  }

  observe(desired: DesiredBridge, scope: Scope): ObservedBridge {
    this.looks.push(scope);
    const link = this.bridge;
    if (link?.kind !== "bridge") {
      return { link, addresses: [], settings: this.settings, ports: new Map(), ways: new Map(), neighbours: new Map() };
    }
    const names = scope.ports === "all" ? [...desired.ports.keys()] : [...scope.ports];
    const wanted = names.flatMap((name) => desired.ports.get(name) ?? []);
    const own = (scope.ways === "all" ? [...desired.ports.values()] : wanted).flatMap(({ addresses }) => addresses);
    const lookedUp = new Set([...own, ...(scope.ways === "all" ? [] : scope.ways)]);
    return {
      link,
      addresses: this.addresses,
      settings: new Map(this.settings),
      ports: new Map(
        wanted.map(({ name }): [string, ObservedPort] => {
          const port = this.ports.get(name);
          const filters = scope.hasFilters ? port?.filters : undefined;
          return [name, { link: port?.link, entry: port?.entry, filters, delay: port?.delay }];
        }),
      ),
      ways: new Map([...lookedUp].map((address) => [address, this.#way(address, link.index)])),
      neighbours: new Map(this.neighbours),
    };
  }

  apply(steps: readonly Step[]): readonly DrawbridgeError[] {
    const refused: DrawbridgeError[] = [];
    for (const step of steps) {
      this.steps.push(step);
      const refusal = this.refusal?.(step);
      if (refusal === undefined) this.#carryOut(step);
      else refused.push(refusal);
    }
    return refused;
  }

  /**
   * Acts like `ip link delete`: ports, addresses, routes and neighbours go with the bridge, and filters lead nowhere.
   */
  deleteBridge(): void {
    this.bridge = undefined;
    this.addresses = [];
    this.routes = [];
    this.neighbours.clear();
    for (const [name, port] of this.ports) {
      const { link, filters } = port;
      const loose = link && { ...link, master: undefined, bridgePort: undefined };
      this.ports.set(name, {
        ...port,
        link: loose,
        entry: undefined,
        filters: filters && { ...filters, targets: filters.targets.map(() => 0) },
      });
    }
  }

  #way(address: Address, bridge: number): Way {
    const others = this.ways.get(address);
    if (others !== undefined) return others;
    return { link: this.routes.some((route) => cidrContains(route, address)) ? bridge : UPLINK };
  }

  #carryOut(step: Step): void {
    switch (step.type) {
      case "create-bridge":
        return this.#createBridge(step.name, step.mac);
      case "change-bridge": {
        const { stp, ...to } = step.to;
        if (this.bridge === undefined) return;
        this.bridge = { ...this.bridge, ...to, ...(stp === undefined ? {} : { bridge: { stp } }) };
        return;
      }
      case "write-setting":
        this.settings.set(step.key, step.value);
        return;
      case "add-address":
        this.addresses = [...this.addresses, step.address];
        this.routes = [...this.routes, step.address];
        return;
      case "add-subnet-route":
        this.routes = [...this.routes, step.address];
        return;
      case "add-host-route":
        this.routes = [...this.routes, step.destination];
        return;
      case "change-port":
        return this.#attach(step);
      case "delay-sending":
        return this.#delay(step.port.name);
      case "remove-filters":
        return this.#setFilters(step.port.name, []);
      case "lead-around":
        return this.#lead(step.port, step.bridge, step.hasFilters);
      case "set-neighbour":
        this.neighbours.set(step.address, step.mac);
    }
  }

  #createBridge(name: string, mac: MacAddress): void {
    this.bridge = { ...plainLink(++this.#lastBridge, name, mac), kind: "bridge", bridge: { stp: false }, up: false };
  }

  #attach({ bridge, port }: { readonly index: number; readonly bridge: number; readonly port: DesiredPort }): void {
    const found = this.ports.get(port.name);
    if (found?.link === undefined) return;
    const bridgePort = { state: FORWARDING, hairpin: port.hairpin, ...PORT_FLAGS };
    this.ports.set(port.name, { ...found, link: { ...found.link, master: bridge, up: true, bridgePort } });
  }

  #lead(port: DesiredPort, bridge: number, hasFilters: boolean): void {
    const found = this.ports.get(port.name);
    if (found === undefined || port.bypass === "none") return;
    this.ports.set(port.name, { ...found, entry: found.link?.index });
    if (hasFilters && port.bypass === "both ways") {
      this.#setFilters(
        port.name,
        port.addresses.map(() => bridge),
      );
    }
  }

  #delay(name: string): void {
    const found = this.ports.get(name);
    if (found?.filters === undefined || found.delay === undefined) return;
    const filters = { ...found.filters, hasOthers: true };
    this.ports.set(name, { ...found, filters, delay: { ...found.delay, up: true } });
  }

  #setFilters(name: string, targets: readonly number[]): void {
    const found = this.ports.get(name);
    if (found !== undefined)
      this.ports.set(name, { ...found, filters: { hasOthers: false, ...found.filters, targets } });
  }
}

/** Returns a link that is up and of no particular kind. */
export function plainLink(index: number, name: string, mac: MacAddress | undefined): Link {
  return {
    index,
    name,
    kind: undefined,
    mac,
    mtu: 1500,
    up: true,
    carrier: true,
    hasLinkLayer: true,
    operationalState: 6,
    master: undefined,
    peer: undefined,
    alias: undefined,
    bridge: undefined,
    bridgePort: undefined,
  };
}

function portLink({ name, mac, mtu, pod }: DesiredPort, index: number): Link {
  return { ...plainLink(index, name, mac), mtu, kind: "veth", alias: pod };
}
