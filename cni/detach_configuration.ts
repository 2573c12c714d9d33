import { checkDirectory, DATA_DIRECTORY, networkName, RUN_DIRECTORY } from "./configuration.ts";
import { checkInterfaceName } from "./environment.ts";
import { CniErrorCode } from "./error.ts";
import type { DetachInput } from "./network_input.ts";
import type { PolicydAccess } from "./registration.ts";
import { detachAccess } from "./registration.ts";

/** What releasing addresses needs: where they are, not how they are chosen. */
export interface ReleaseConfiguration {
  readonly name: string;
  readonly ipam: { readonly dataDir: string };
}

/** What DEL reads: where things are, not how they are made. */
export interface DetachConfiguration extends ReleaseConfiguration {
  readonly runDir: string;
  readonly bridge: string;
  readonly policyd: PolicydAccess | undefined;
}

/**
 * Judges only what a DEL needs. A configuration that ADD would refuse must not keep a pod from being removed: it may
 * have changed since, or be another plugin's (CNI specification: DEL is best effort).
 *
 * @throws CniError 7 naming the field
 */
export function detachConfiguration(input: DetachInput): DetachConfiguration {
  return {
    ...releaseConfiguration(input),
    runDir: checkDirectory("runDir", input.runDir || RUN_DIRECTORY),
    bridge: checkInterfaceName(input.bridge ?? "drawbridge0", "bridge", CniErrorCode.INVALID_CONFIGURATION),
    policyd: detachAccess(input.policyd),
  };
}

/** The same for the IPAM face, which has no bridge. @throws CniError 7 naming the field */
export function releaseConfiguration(input: DetachInput): ReleaseConfiguration {
  return {
    name: networkName(input),
    ipam: { dataDir: checkDirectory("ipam.dataDir", input.ipam?.dataDir || DATA_DIRECTORY) },
  };
}
