import type { ApiWriter, Write, WriteOutcome } from "../api_write/api_writer.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import type { ObjectConsumer } from "../component.ts";
import { nodeNamed } from "../events/notice.ts";
import type { ObjectChange } from "../../objects/model.ts";
import { attempted, type Attempts, MOST_ATTEMPTS, NO_ATTEMPTS, seenAvailable } from "./attempts.ts";
import { HttpApiWriter } from "../api_write/http_api_writer.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Health } from "../health/open.ts";
import type { RouteReconciler } from "../routes/route_reconciler.ts";
import { apiCredentials } from "../sources/open.ts";

/** Interval at which the daemon's readiness is checked. */
export const LOOK_MILLISECONDS = 500;
/** Time for another program, such as the cloud's route controller, to clear the condition before it is reported. */
export const PATIENCE_MILLISECONDS = 30_000;
const LONGEST_REASON = 200;
const CONTESTED =
  "another program sets the condition NetworkUnavailable again and again, so policyd now clears it only rarely: let one of the two " +
  "manage it, such as by --configure-cloud-routes=false of the cloud controller manager";
const OVERLAY = "manifests/overlays/network-unavailable";

export interface NetworkConditionParts extends Pick<Machine, "clock" | "logger" | "events" | "nodeName"> {
  readonly writer: ApiWriter;
  /** Whether the daemon should clear the condition. */
  readonly isOurs: boolean;
  /** Whether the daemon is ready and the routes are in force. */
  readonly isReady: () => boolean;
  /** Returns a number from 0 up to 1. */
  readonly random: () => number;
}

/**
 * Clears the condition NetworkUnavailable of this node's Node, with which a cloud provider keeps pods off a new node
 * until its routes exist. Once the daemon is ready, it sets the condition to False. Where it is not configured to, and
 * no other program does it, the condition is reported.
 */
export class NetworkCondition implements ObjectConsumer {
  readonly #parts: NetworkConditionParts;
  #unavailableSince: number | undefined;
  #attempts: Attempts = NO_ATTEMPTS;
  #problem: string | undefined;
  /** The last reported problem, which is reported only once. */
  #reported: string | undefined;
  readonly #loop: ControlLoop;

  constructor(parts: NetworkConditionParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#look() });
  }

  apply(changes: readonly ObjectChange[]): void {
    const { nodeName } = this.#parts;
    for (const change of changes) {
      if (change.kind !== "Node" || change.key !== nodeName) continue;
      this.#follow(change.type === "set" && change.object.kind === "Node" && change.object.isNetworkUnavailable);
    }
  }

  problems(): readonly string[] {
    return this.#problem === undefined ? [] : [this.#problem];
  }

  /** Stops without waiting for a request in progress. */
  async stop(): Promise<void> {
    void this.#loop.stop();
    this.#parts.writer.stop();
  }

  #follow(isUnavailable: boolean): void {
    if (isUnavailable === (this.#unavailableSince !== undefined)) return;
    const { clock, random } = this.#parts;
    this.#unavailableSince = isUnavailable ? clock.now() : undefined;
    if (!isUnavailable) {
      this.#attempts = seenAvailable(this.#attempts, random());
      this.#problem = undefined;
    }
    this.#loop.run();
  }

  #look(): NextPass | Promise<NextPass> {
    const { clock, nodeName, isOurs, isReady } = this.#parts;
    if (this.#unavailableSince === undefined) return undefined;
    if (!isReady()) return LOOK_MILLISECONDS;
    const due = isOurs ? this.#attempts.notBefore : this.#unavailableSince + PATIENCE_MILLISECONDS;
    if (clock.now() < due) return due - clock.now();
    if (isOurs) return this.#patch();
    this.#tell(
      `Node ${nodeName} has the condition NetworkUnavailable, so that nothing is scheduled on it: apply ${OVERLAY}, ` +
        "by which policyd clears it (clearNetworkUnavailable), or have the cloud's route controller do it",
    );
    return undefined;
  }

  /** @returns milliseconds until it is decided again */
  async #patch(): Promise<NextPass> {
    const { writer, clock, nodeName, random } = this.#parts;
    const outcome = await writer.write(availablePatch(nodeName, clock.time()));
    if (this.#loop.isStopped) return undefined;
    this.#attempts = attempted(this.#attempts, outcome, clock.now(), random());
    // The watch may have been faster than the answer.
    if (this.#unavailableSince === undefined) this.#attempts = seenAvailable(this.#attempts, random());
    this.#settle(outcome);
    return 0;
  }

  #settle(outcome: WriteOutcome): void {
    const { logger, nodeName } = this.#parts;
    if (outcome.type === "written") {
      logger.info("the Node's condition NetworkUnavailable is set to False", { node: nodeName });
      this.#problem = undefined;
      if (this.#attempts.written >= MOST_ATTEMPTS) this.#tell(`Node ${nodeName}: ${CONTESTED}`);
      return;
    }
    const way =
      outcome.type === "forbidden" ? `; expected the verb patch on nodes/status, which ${OVERLAY} grants` : "";
    const reason = outcome.reason.slice(0, LONGEST_REASON);
    const problem = `Node ${nodeName}: the condition NetworkUnavailable stays: ${reason}${way}`;
    if (outcome.type === "failed" && this.#attempts.count < MOST_ATTEMPTS) this.#problem = problem;
    else this.#tell(problem);
  }

  #tell(problem: string): void {
    const { logger, events, nodeName } = this.#parts;
    this.#problem = problem;
    if (this.#reported === problem) return;
    this.#reported = problem;
    logger.warn("the Node says that its network is unavailable", { reason: problem });
    events.tell({ regarding: nodeNamed(nodeName), reason: "InstallationProblem", note: problem });
  }
}

/**
 * Returns the patch that sets the condition NetworkUnavailable of a Node to False, as flannel and the cloud's route
 * controller do. Conditions are merged by type, so all others stay unchanged (the patch strategy of
 * NodeStatus.conditions).
 *
 * @param at time of the change, in milliseconds since the epoch
 */
export function availablePatch(nodeName: string, at: number): Write {
  const time = new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
  const condition = {
    type: "NetworkUnavailable",
    status: "False",
    reason: "RouteCreated",
    message: "Drawbridge's rules and routes are in force on this node",
    lastHeartbeatTime: time,
    lastTransitionTime: time,
  };
  return {
    method: "PATCH",
    path: `/api/v1/nodes/${encodeURIComponent(nodeName)}/status`,
    body: JSON.stringify({ status: { conditions: [condition] } }),
  };
}

/**
 * Opens the part for this node's condition NetworkUnavailable; undefined where objects come from a directory, without
 * an API server.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where no address of an API server is found
 */
export function openNetworkCondition(
  configuration: Configuration,
  machine: Machine,
  health: Pick<Health, "isReady">,
  routes: Pick<RouteReconciler, "areInForce">,
): NetworkCondition | undefined {
  const { objectsDirectory, clearNetworkUnavailable } = configuration;
  if (objectsDirectory !== undefined) return undefined;
  return new NetworkCondition({
    ...machine,
    writer: new HttpApiWriter(apiCredentials(configuration, machine.syscalls), machine.clock),
    isOurs: clearNetworkUnavailable,
    isReady: () => health.isReady() && routes.areInForce,
    random: () => Math.random(),
  });
}
