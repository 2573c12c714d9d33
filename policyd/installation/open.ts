import type { Clock } from "../clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { hostFiles } from "./host_files.ts";
import { Installation } from "./installation.ts";

/** What the installation needs of the machine. */
export interface InstallationMachine {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly ruleset: Pick<Ruleset, "follow">;
  /** Of pods, in bytes; undefined where nobody knows it. */
  readonly mtu?: () => number | undefined;
}

/** Keeps the plugin installed on this node, where the configuration says so; nothing happens before it is started. */
export function openInstallation(
  configuration: Configuration,
  { clock, logger, events, ruleset, mtu = () => undefined }: InstallationMachine,
): Installation | undefined {
  if (!configuration.installCni) return undefined;
  const { cniSourceDirectory, cniBinDirectory, cniConfDirectory, nodeName, podCIDRs, syncPeriod } = configuration;
  const installation = new Installation({
    files: hostFiles,
    clock,
    logger,
    events,
    places: { source: cniSourceDirectory, binaries: cniBinDirectory, configurations: cniConfDirectory },
    nodeName,
    podCidrs: podCIDRs,
    network: configuration,
    mtu,
    syncPeriod,
  });
  ruleset.follow(() => installation.rulesInForce());
  return installation;
}
