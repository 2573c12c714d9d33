import { attempt } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../kernel/ip/cidr.ts";
import type { ObjectConsumer } from "../component.ts";
import type { Commit } from "../ruleset/difference.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { Logger } from "../log/logger.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";
import { type EarlyTablePlace, writeEarlyTable } from "./early_table.ts";
import { keptChains, keptElement } from "./nat_exemption.ts";
import type { ProtectedPort, ProtectedSocket } from "../../objects/socket_refusal.ts";
import type { ProtectedSocketIndex } from "./socket_index.ts";
import type { TranslatedFlows } from "./translated_flows.ts";

const OWNER = "protected sockets that are kept";

export interface SocketProtectionParts extends Pick<EarlyTablePlace, "kernel"> {
  readonly index: ProtectedSocketIndex;
  /** The ruleset whose tables have the part `keptSockets()`. Its owner starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim" | "provide" | "committed" | "inForce" | "commitBeside">;
  readonly flows: Pick<TranslatedFlows, "forget" | "stop">;
  readonly logger: Logger;
  /** The ports that are protected on all nodes. */
  readonly ports: readonly ProtectedPort[];
  /** The Service address in pods' environment, which must be translated; undefined outside of pods. */
  readonly variable: Address | undefined;
  /** The configured ranges of Services. */
  readonly serviceCidrs: readonly Cidr[];
}

/**
 * Keeps connections to protected sockets from being translated (CLAIM-04): first those to the API server, before
 * anything is read from it, then those to all protected sockets, at the addresses that objects name.
 */
export class SocketProtection implements ObjectConsumer {
  readonly #parts: SocketProtectionParts;
  #version: number | undefined;
  #areFlowsDue = true;
  #isInForce = false;

  constructor(parts: SocketProtectionParts) {
    this.#parts = parts;
    parts.index.askedChanged.subscribe(() => this.#claim());
    parts.ruleset.committed.subscribe((commit) => this.#rulesInForce(commit));
  }

  apply(): void {
    this.#claim();
  }

  async stop(): Promise<void> {
    this.#parts.flows.stop();
  }

  /** Protects the sockets of the node's API servers. Resolves when that is in force or the kernel has refused it. */
  async protect(sockets: readonly ProtectedSocket[]): Promise<void> {
    const { index, ruleset, flows, logger } = this.#parts;
    index.setAsked(sockets);
    if (this.#isInForce) {
      await ruleset.inForce();
      return;
    }
    const kept = sockets.filter((socket) => !this.#isOfService(socket));
    attempt(
      () => writeEarlyTable(this.#parts, kept),
      (error) =>
        logger.error("the API server's address is not protected before the first list", { error: error.message }),
    );
    if (kept.length > 0) await flows.forget(() => ({ sockets: kept, ports: [], nodeAddresses: new Set() }));
  }

  /** Returns, before Services have been read, whether a socket belongs to a Service and must be translated. */
  #isOfService({ address }: ProtectedSocket): boolean {
    const { variable, serviceCidrs } = this.#parts;
    return address === variable || serviceCidrs.some((cidr) => cidrContains(cidr, address));
  }

  #claim(): void {
    const { index, ruleset } = this.#parts;
    const version = index.currentVersion();
    if (version === this.#version) return;
    this.#version = version;
    this.#areFlowsDue = true;
    const sockets = index.sockets();
    ruleset.provide(OWNER, { table: INET_TABLE, sets: [], chains: sockets.length === 0 ? [] : keptChains }, "urgent");
    ruleset.claim(OWNER, sockets.map(keptElement), "urgent");
  }

  #rulesInForce({ isWhole }: Commit): void {
    const { flows, index, ports } = this.#parts;
    this.#isInForce = true;
    if (!this.#areFlowsDue && !isWhole) return;
    this.#areFlowsDue = false;
    void flows.forget(() => ({ sockets: index.sockets(), ports, nodeAddresses: index.nodeAddresses() }));
  }
}
