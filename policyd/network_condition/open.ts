import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import { HttpApiWriter } from "../api_write/http_api_writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Health } from "../health/open.ts";
import type { Logger } from "../log/logger.ts";
import type { RouteReconciler } from "../routes/route_reconciler.ts";
import { apiCredentials } from "../sources/open.ts";
import { NetworkCondition } from "./network_condition.ts";

/** The parts of the machine that {@link openNetworkCondition} needs. */
export interface NetworkConditionMachine {
  readonly syscalls: FileReadCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly clusterEvents: NoticeSink;
  readonly health: Pick<Health, "isReady">;
  readonly routes: Pick<RouteReconciler, "areInForce">;
}

/**
 * Opens the part for this node's condition NetworkUnavailable; undefined where objects come from a directory, without
 * an API server.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where no address of an API server is found
 */
export function openNetworkCondition(
  configuration: Configuration,
  { syscalls, clock, logger, clusterEvents: events, health, routes }: NetworkConditionMachine,
): NetworkCondition | undefined {
  const { objectsDirectory, nodeName, clearNetworkUnavailable } = configuration;
  if (objectsDirectory !== undefined) return undefined;
  return new NetworkCondition({
    writer: new HttpApiWriter(apiCredentials(configuration, syscalls), clock),
    clock,
    logger,
    events,
    nodeName,
    isOurs: clearNetworkUnavailable,
    isReady: () => health.isReady() && routes.areInForce,
    random: () => Math.random(),
  });
}
