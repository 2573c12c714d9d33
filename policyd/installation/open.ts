import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { RouteReconciler } from "../routes/route_reconciler.ts";
import { hostFiles } from "./host_files.ts";
import { Installation } from "./installation.ts";

/** The parts of the machine that the installation needs. */
export interface InstallationMachine {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly clusterEvents: NoticeSink;
  readonly ruleset: Pick<Ruleset, "committed">;
  readonly routes: Pick<RouteReconciler, "podMtu" | "podMtuChanged">;
}

/** Returns the part that keeps the plugin installed, where configured; it does nothing before it is started. */
export function openInstallation(
  configuration: Configuration,
  { clock, logger, clusterEvents: events, ruleset, routes }: InstallationMachine,
): Installation | undefined {
  if (!configuration.installCni) return undefined;
  const {
    cniSourceDirectory,
    cniBinDirectory,
    cniConfDirectory,
    cniChain,
    cniPrimary,
    nodeName,
    podCIDRs,
    syncPeriod,
  } = configuration;
  const installation = new Installation({
    files: hostFiles,
    clock,
    logger,
    events,
    places: { source: cniSourceDirectory, binaries: cniBinDirectory, configurations: cniConfDirectory },
    nodeName,
    podCidrs: podCIDRs,
    network: configuration,
    chain: cniChain,
    primary: cniPrimary,
    mtu: () => routes.podMtu,
    syncPeriod,
  });
  ruleset.committed.subscribe(() => installation.rulesInForce());
  routes.podMtuChanged.subscribe(() => installation.mtuChanged());
  return installation;
}
