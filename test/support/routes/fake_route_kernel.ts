import { DrawbridgeError } from "../../../kernel/error.ts";
import { cidrFamily, formatCidr } from "../../../kernel/ip/cidr.ts";
import { type Route, ROUTE_PROTOCOL } from "../../../kernel/route/route.ts";
import type { Slices } from "../../../policyd/lib/sliced_work.ts";
import type {
  KernelState,
  OwnRoute,
  RouteKernel,
  Step,
  TunnelState,
} from "../../../policyd/routes/route_kernel/kernel_state.ts";
import { ROUTE_PRIORITY } from "../../../policyd/routes/own_routes.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";

/** An in-memory {@link RouteKernel} for tests, which refuses what the kernel refuses. */
export class FakeRouteKernel implements RouteKernel {
  /** The current state; a test may replace it. */
  state: KernelState;
  /** All steps carried out, in order. */
  readonly steps: Step[] = [];
  reads = 0;
  /** Whether steps for checksum offload and source check of the tunnel have no effect. */
  isStubborn = false;
  /** The error with which the next read fails. */
  failure: DrawbridgeError | undefined;
  /** Which steps are refused. */
  refuses: (step: Step) => boolean = () => false;

  constructor(state: KernelState) {
    this.state = state;
  }

  // oxlint-disable-next-line require-yield
  *read(): Slices<KernelState> {
    this.reads++;
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
    return this.state;
  }

  lookUp(): readonly undefined[] {
    return [];
  }

  apply(steps: readonly Step[]): readonly DrawbridgeError[] {
    this.steps.push(...steps);
    return steps.flatMap((step) => {
      const refusal = this.refuses(step) ? "refused" : this.#apply(step);
      return refusal === undefined ? [] : [new DrawbridgeError("ERR_NETLINK", `${step.type}: ${refusal}`)];
    });
  }

  close(): void {}

  #apply(step: Step): string | undefined {
    switch (step.type) {
      case "create-tunnel":
        return this.#create(step.tunnel);
      case "delete-tunnel":
        return this.#delete(step.index);
      case "change-tunnel":
        return this.#change({ mac: step.mac, mtu: step.mtu, up: true });
      case "switch-checksum-offload-off":
        return this.isStubborn ? undefined : this.#change({ checksumOffload: false });
      case "loosen-source-check":
        return this.isStubborn ? undefined : this.#change({ hasStrictSourceCheck: false });
      case "switch-ipv6-on":
        return this.#change({ isWithoutIpv6: false });
      case "add-tunnel-address":
      case "delete-address":
        return this.#changeAddress(step);
      default:
        return this.#applyEntry(step);
    }
  }

  #applyEntry(step: Step): string | undefined {
    switch (step.type) {
      case "set-forwarding": {
        const others = this.state.tunnel?.forwarding.filter(({ mac }) => mac !== step.entry.mac) ?? [];
        return this.#change({ forwarding: [...others, step.entry] });
      }
      case "delete-forwarding":
        return this.#change({
          forwarding: this.state.tunnel?.forwarding.filter(({ mac }) => mac !== step.entry.mac) ?? [],
        });
      case "set-neighbour":
      case "delete-neighbour": {
        const others = this.state.tunnel?.neighbours.filter(({ address }) => address !== step.address) ?? [];
        const set = step.type === "set-neighbour" ? [{ address: step.address, mac: step.mac }] : [];
        return this.#change({ neighbours: [...others, ...set] });
      }
      default:
        return this.#applyRoute(step);
    }
  }

  #applyRoute(step: Step): string | undefined {
    switch (step.type) {
      case "add-route":
      case "replace-route":
        return this.#setRoute(step.route, step.type === "replace-route");
      case "delete-route": {
        const place = this.state.routes.findIndex((route) => isSame(route, step.route));
        if (place < 0) return "no such route";
        this.state = { ...this.state, routes: this.state.routes.toSpliced(place, 1) };
        return undefined;
      }
      case "add-rule":
        this.state = { ...this.state, rules: [...this.state.rules, step.rule] };
        return undefined;
      case "delete-rule": {
        const text = JSON.stringify(step.rule);
        this.state = { ...this.state, rules: this.state.rules.filter((rule) => JSON.stringify(rule) !== text) };
        return undefined;
      }
      default:
        return "unknown";
    }
  }

  #create({ local, mac, mtu }: Extract<Step, { type: "create-tunnel" }>["tunnel"]): string | undefined {
    if (this.state.links.some(({ name }) => name === TUNNEL.name)) return "there is a link of this name";
    const index = Math.max(0, ...this.state.links.map((link) => link.index)) + 1;
    const link = { index, name: TUNNEL.name, mtu, up: false, hasLinkLayer: true };
    const tunnel: TunnelState = {
      ...link,
      mac,
      parameters: { vni: TUNNEL.vni, port: TUNNEL.port, local, learning: false, hasMore: false, hasOwnSocket: false },
      checksumOffload: true,
      hasStrictSourceCheck: this.isStubborn,
      isWithoutIpv6: false,
      forwarding: [],
      neighbours: [],
    };
    this.state = { ...this.state, links: [...this.state.links, link], tunnel };
    return undefined;
  }

  #delete(index: number): string | undefined {
    if (this.state.tunnel?.index !== index) return "no such link";
    this.state = {
      ...this.state,
      links: this.state.links.filter((link) => link.index !== index),
      addresses: this.state.addresses.filter((address) => address.index !== index),
      routes: this.state.routes.filter((route) => route.outputInterface !== index),
      tunnel: undefined,
    };
    return undefined;
  }

  #change(to: Partial<TunnelState>): string | undefined {
    const { tunnel } = this.state;
    if (tunnel === undefined) return "no such link";
    const changed = { ...tunnel, ...to };
    const { index, name, mtu, up, hasLinkLayer } = changed;
    const seen = { index, name, mtu, up, hasLinkLayer };
    const links = this.state.links.map((link) => (link.index === index ? seen : link));
    this.state = { ...this.state, links, tunnel: changed };
    return undefined;
  }

  #changeAddress({
    type,
    index,
    address,
  }: Extract<Step, { readonly type: "add-tunnel-address" | "delete-address" }>): string | undefined {
    if (this.state.tunnel?.isWithoutIpv6 === true && cidrFamily(address) === 6) return "IPv6 is off";
    const isSameAddress = (one: KernelState["addresses"][number]): boolean =>
      one.index === index && formatCidr(one.address) === formatCidr(address);
    const others = this.state.addresses.filter((one) => !isSameAddress(one));
    const made = { index, address, scope: 0, tentative: false, duplicateDetected: false, permanent: true };
    this.state = { ...this.state, addresses: type === "add-tunnel-address" ? [...others, made] : others };
    return undefined;
  }

  #setRoute(route: OwnRoute, isReplacement: boolean): string | undefined {
    const isUp = this.state.links.some(({ index, up }) => index === route.outputInterface && up);
    if (!isUp) return "the link is down";
    const place = this.state.routes.findIndex(
      (other) =>
        other.table === route.table &&
        other.priority === ROUTE_PRIORITY &&
        textOf(other.destination) === textOf(route.destination),
    );
    if (place >= 0 && !isReplacement) return "there is one of this destination";
    const made: Route = { ...route, protocol: ROUTE_PROTOCOL, priority: ROUTE_PRIORITY, hasOtherNextHop: false };
    const { routes } = this.state;
    this.state = { ...this.state, routes: place < 0 ? [...routes, made] : routes.with(place, made) };
    return undefined;
  }
}

function textOf(destination: Route["destination"]): string {
  return destination === undefined ? "default" : formatCidr(destination);
}

function isSame(route: Route, own: OwnRoute): boolean {
  return (
    route.protocol === ROUTE_PROTOCOL &&
    route.priority === ROUTE_PRIORITY &&
    route.table === own.table &&
    textOf(route.destination) === textOf(own.destination) &&
    route.gateway === own.gateway &&
    (own.outputInterface === 0 || route.outputInterface === own.outputInterface)
  );
}
