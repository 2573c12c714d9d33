import type { EndpointSlice, Service } from "../cluster/model.ts";
import type { Commit } from "../dataplane/commit.ts";
import type { FrontendHolders } from "./compile/arbitration.ts";
import type { CompileContext } from "./compile/context.ts";
import type { NodeFacts } from "./compile/service_index.ts";

/** A Service with all that decides what becomes of it on this node. */
export interface ServedService {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
  readonly context: CompileContext;
  readonly holders: Pick<FrontendHolders, "holder" | "rival" | "own">;
}

/** What depends on Services beside their rules. */
export interface ServiceFollower {
  /** Takes over a Service as it is now, undefined for one that is gone. */
  replace(key: string, served: ServedService | undefined): void;
  nodeChanged(facts: NodeFacts): void;
  /**
   * The kernel has all rules that follow from what was told by now.
   *
   * @param commit by what it got them; undefined when nothing had to be written
   */
  rulesInForce(commit: Commit | undefined): void;
  /** What is wrong now, for the status. */
  problems(): readonly string[];
  stop(): void;
}
