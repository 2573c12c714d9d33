import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { RouteReconciler } from "../routes/route_reconciler.ts";
import { hostFiles } from "./host_files.ts";
import { Installation } from "./installation.ts";

/** Returns the part that keeps the plugin installed, where configured; it does nothing before it is started. */
export function openInstallation(
  configuration: Configuration,
  machine: Machine,
  routes: Pick<RouteReconciler, "podMtu" | "podMtuChanged">,
): Installation | undefined {
  if (!configuration.installCni) return undefined;
  const { cniSourceDirectory, cniBinDirectory, cniConfDirectory, cniChain, cniPrimary } = configuration;
  const installation = new Installation({
    ...machine,
    files: hostFiles,
    places: { source: cniSourceDirectory, binaries: cniBinDirectory, configurations: cniConfDirectory },
    podCidrs: configuration.podCIDRs,
    network: configuration,
    chain: cniChain,
    primary: cniPrimary,
    mtu: () => routes.podMtu,
    syncPeriod: configuration.syncPeriod,
  });
  machine.ruleset.committed.subscribe(() => installation.rulesInForce());
  routes.podMtuChanged.subscribe(() => installation.mtuChanged());
  return installation;
}
