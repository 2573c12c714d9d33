import type { Service } from "../../objects/model.ts";
import type { CompileContext } from "./rules/context.ts";
import { healthCheckPort, type RefusedFrontend, refusedFrontends } from "./elements/frontends.ts";
import type { ServedPart } from "./elements/service_size.ts";
import type { ProtectedSocketIndex } from "../protection/socket_index.ts";

/**
 * Finds the Services that gain or lose a frontend when protected sockets change: among those with external or load
 * balancer addresses or health checks, with refused frontends, or with a protected address as their own.
 */
export class ProtectionFollower {
  readonly #protection: ProtectedSocketIndex | undefined;
  /** The refused frontends of each Service that has some, as text. */
  readonly #refused = new Map<string, string>();
  #version: number | undefined;

  constructor(protection: ProtectedSocketIndex | undefined) {
    this.#protection = protection;
  }

  /** Records the state in which a Service's frontends are assigned; undefined for one that is gone. */
  assigned(key: string, service: Service | undefined, context: CompileContext): void {
    const text = service === undefined ? "" : this.#textOf(service, context);
    if (text === "") this.#refused.delete(key);
    else this.#refused.set(key, text);
  }

  /**
   * Returns the Services whose refused frontends have changed; undefined while no protected socket has changed.
   *
   * @param parts what is served of each Service
   */
  touched(context: CompileContext, parts: ReadonlyMap<string, ServedPart>): readonly string[] | undefined {
    const version = this.#protection?.currentVersion();
    if (version === this.#version) return undefined;
    this.#version = version;
    return [...parts].flatMap(([key, { service }]) => {
      const before = this.#refused.get(key);
      if (before === undefined && !this.#mayBeRefused(service)) return [];
      return this.#textOf(service, context) === (before ?? "") ? [] : key;
    });
  }

  #mayBeRefused(service: Service): boolean {
    const { externalIps, loadBalancerIngress, clusterIps } = service;
    if (externalIps.length + loadBalancerIngress.length > 0 || healthCheckPort(service) !== undefined) return true;
    return clusterIps.some((address) => this.#protection?.isProtectedAddress(address) === true);
  }

  #textOf(service: Service, context: CompileContext): string {
    const { clusterIps, externalIps } = service;
    const own = clusterIps.filter((address) => this.#protection?.isProtectedAddress(address) === true);
    const ofNodes = externalIps.filter((address) => this.#protection?.isNodeAddress(address) === true);
    return [
      ...own.map(String),
      ...ofNodes.map(String),
      ...refusedFrontends(service, context).map(textOfFrontend),
    ].join();
  }
}

function textOfFrontend({ frontend, protocol, refusal }: RefusedFrontend): string {
  const address = "address" in frontend ? String(frontend.address) : "";
  return [frontend.type, address, protocol, frontend.port, refusal.type, refusal.owner].join(" ");
}
