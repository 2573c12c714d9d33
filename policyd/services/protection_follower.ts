import type { Service } from "../../objects/model.ts";
import type { CompileContext } from "./rules/context.ts";
import { healthCheckPort, type RefusedFrontend, refusedFrontends, virtualAddresses } from "./elements/frontends.ts";
import type { ServedPart } from "./elements/service_size.ts";
import type { ProtectedSocketIndex } from "../protection/socket_index.ts";

/**
 * Finds the Services that gain or lose a frontend when protected sockets change: those with external or load balancer
 * addresses or health checks, those with refused frontends, and, where a socket of a single address came or went, those that have the
 * address as their own. No other Service needs a check.
 */
export class ProtectionFollower {
  readonly #protection: ProtectedSocketIndex | undefined;
  /** The Services with external or load balancer addresses, or with health checks. */
  readonly #outside = new Set<string>();
  /** The refused frontends of each Service, as text. */
  readonly #refused = new Map<string, string>();
  #version: number | undefined;
  #sockets = "";
  #areSocketsNew = false;

  constructor(protection: ProtectedSocketIndex | undefined) {
    this.#protection = protection;
  }

  /** Records the result of compiling a Service. */
  compiled(service: Service, refused: readonly RefusedFrontend[]): void {
    const { key, externalIps } = service;
    const isOutside = externalIps.length > 0 || virtualAddresses(service).length > 0;
    if (isOutside || healthCheckPort(service) !== undefined) this.#outside.add(key);
    else this.#outside.delete(key);
    const text = this.#textOf(service, refused);
    if (text === "") this.#refused.delete(key);
    else this.#refused.set(key, text);
  }

  /** Forgets a deleted Service. */
  removed(key: string): void {
    this.#outside.delete(key);
    this.#refused.delete(key);
  }

  /**
   * Returns the Services whose refused frontends have changed; none while no protected socket has changed.
   *
   * @param parts what is served of each Service
   */
  touched(context: CompileContext, parts: ReadonlyMap<string, ServedPart>): readonly string[] {
    const protection = this.#protection;
    const version = protection?.currentVersion();
    if (version === this.#version || protection === undefined) return [];
    this.#version = version;
    const concerned = new Set([...this.#outside, ...this.#refused.keys()]);
    const sockets = protection.allSockets().map(textOfSocket).join();
    this.#areSocketsNew = true;
    if (sockets !== this.#sockets) {
      this.#sockets = sockets;
      for (const [key, { service }] of parts) {
        if (service.clusterIps.some((address) => protection.isProtectedAddress(address))) concerned.add(key);
      }
    }
    return [...concerned].filter((key) => {
      const one = parts.get(key)?.service;
      const now = one === undefined ? "" : this.#textOf(one, refusedFrontends(one, context));
      return now !== (this.#refused.get(key) ?? "");
    });
  }

  /** Returns whether {@link touched} has seen a change since the last call; sockets of single addresses may differ. */
  haveSocketsChanged(): boolean {
    const areNew = this.#areSocketsNew;
    this.#areSocketsNew = false;
    return areNew;
  }

  #textOf({ clusterIps, externalIps }: Service, refused: readonly RefusedFrontend[]): string {
    const own = clusterIps.filter((address) => this.#protection?.isProtectedAddress(address) === true);
    const ofNodes = externalIps.filter((address) => this.#protection?.isNodeAddress(address) === true);
    return [...own.map(String), ...ofNodes.map(String), ...refused.map(textOfFrontend)].join();
  }
}

function textOfFrontend({ frontend, protocol, refusal }: RefusedFrontend): string {
  const address = "address" in frontend ? String(frontend.address) : "";
  return [frontend.type, address, protocol, frontend.port, refusal.type, refusal.owner].join(" ");
}

function textOfSocket({ address, protocol, port }: ReturnType<ProtectedSocketIndex["sockets"]>[number]): string {
  return [typeof address, address, protocol, port].join(" ");
}
