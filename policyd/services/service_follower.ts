import type { EndpointSlice, Service } from "../../objects/model.ts";
import type { Commit } from "../ruleset/difference.ts";
import type { FrontendHolders } from "./elements/arbitration.ts";
import type { CompileContext } from "./rules/context.ts";
import type { NodeFacts } from "./elements/service_index.ts";
import type { CompiledService } from "./elements/compile_service.ts";

/** A Service with everything that decides how this node serves it. */
export interface ServedService {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
  readonly context: CompileContext;
  readonly holders: Pick<FrontendHolders, "holder" | "rival">;
}

/** A part of the daemon that depends on Services, beside their rules. Its methods must not throw. */
export interface ServiceFollower {
  /** A Service was compiled, for the first time or again, and its claims are about to be written. */
  compiled?(service: Service, compiled: CompiledService): void;
  /** The Service is gone. */
  removed?(key: string): void;
  /** Replaces a Service, undefined for one that is gone. Its rules are claimed already. */
  replace?(key: string, served: ServedService | undefined): void;
  nodeChanged?(facts: NodeFacts): void;
  /**
   * Reports that the kernel has all rules that follow from the Services set so far.
   *
   * @param commit the commit that wrote them; undefined when nothing had to be written
   */
  rulesInForce?(commit: Commit | undefined): void;
  /** Returns the present problems, for the status. */
  problems?(): readonly string[];
  stop?(): void;
}
