import { CniErrorCode } from "../error.ts";
import { DATA_DIRECTORY, RUN_DIRECTORY } from "./decoding.ts";
import { checkDirectory, checkInterfaceName } from "./names.ts";
import type { DetachInput } from "./network_input.ts";
import { detachAccess, type PolicydAccess } from "./policyd_access.ts";

/** The part of a configuration that is needed to release addresses: where they are, not how they are chosen. */
export interface ReleaseConfiguration {
  readonly name: string;
  readonly ipam: { readonly dataDir: string };
}

/** The part of a configuration that DEL reads: where things are, not how they are made. */
export interface DetachConfiguration extends ReleaseConfiguration {
  readonly runDir: string;
  readonly bridge: string;
  readonly policyd: PolicydAccess | undefined;
}

/**
 * Validates only the fields that a DEL needs. A configuration that ADD would refuse must not prevent a pod's removal:
 * it may have changed since, or be another plugin's (CNI specification: DEL is best effort).
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

/** As {@link detachConfiguration}, for the IPAM face, which has no bridge. @throws CniError 7 naming the field */
export function releaseConfiguration(input: DetachInput): ReleaseConfiguration {
  return {
    name: input.name,
    ipam: { dataDir: checkDirectory("ipam.dataDir", input.ipam?.dataDir || DATA_DIRECTORY) },
  };
}
