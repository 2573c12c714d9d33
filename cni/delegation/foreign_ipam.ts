import type { RangeSet } from "../../ipam/range.ts";
import type { Allocation } from "../../ipam/store.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { networkAddress } from "../../kernel/ip/cidr.ts";
import { type BridgeConfiguration, checkExpressible, onNetwork } from "../configuration/configuration.ts";
import type { DetachInput, NetworkInput } from "../configuration/network_input.ts";
import type { Attachment } from "../environment.ts";
import { CniError } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import { type PendingAdd, pendingPath, writePending } from "./delegation_file.ts";
import { type GivenAddresses, readIpamAnswer } from "./ipam_answer.ts";
import { delegatedDirectory, type PluginInput, usableType } from "./ipam_choice.ts";
import { findPlugin, type IpamCall, NotExecutedError, runIpam } from "./ipam_program.ts";

/** An external IPAM plugin that gives an ADD the pod's addresses. */
export interface AddressGiver {
  /**
   * Lets the plugin give addresses. If it fails, its DEL is called at once.
   *
   * @throws CniError the plugin's answer, or 6 for an answer that cannot be read
   */
  give(): GivenConfiguration;
  /**
   * Calls the plugin's DEL. Ignores its error: the runtime must see the ADD's, and its own DEL calls the plugin again.
   */
  takeBack(): void;
  /** Releases the lock by which a DEL waits for this ADD. */
  end(): void;
}

/** The configuration, completed with the addresses. */
export interface GivenConfiguration {
  readonly configuration: BridgeConfiguration;
  readonly allocations: readonly Allocation[];
}

/** Returns the external IPAM plugin for an ADD. */
export function addressGiver(
  node: PluginMachine,
  ipam: IpamCall,
  input: NetworkInput,
  configuration: BridgeConfiguration,
  attachment: Attachment,
): AddressGiver {
  const { type, environment, stdin } = ipam;
  const path = pendingPath(configuration.runDir, configuration.name, attachment);
  let lock: PendingAdd | undefined;
  const takeBack = (): void => {
    try {
      runIpam(node, ipam, "DEL", lock?.fd);
      node.files.unlink(path);
    } catch (error) {
      // The file stays, so that the runtime's DEL calls the plugin once more.
      if (!(error instanceof CniError || error instanceof DrawbridgeError)) throw error;
    }
  };
  const end = (): void => {
    lock?.release();
    lock = undefined;
  };
  return {
    give() {
      // A plugin that does not exist holds nothing, so no file is written for it.
      findPlugin(node.syscalls, environment["CNI_PATH"], type);
      lock = writePending(node, path, stdin);
      try {
        const given = readIpamAnswer(runIpam(node, ipam, "ADD", lock.fd), configuration.cniVersion);
        return withAddresses(input, configuration, attachment, given);
      } catch (error) {
        if (error instanceof NotExecutedError) lock.forget();
        else takeBack();
        end();
        throw error;
      }
    },
    takeBack,
    end,
  };
}

/** @throws CniError 2 or 7 for a setting of the configuration that these addresses do not allow */
function withAddresses(
  input: NetworkInput,
  draft: BridgeConfiguration,
  attachment: Attachment,
  given: GivenAddresses,
): GivenConfiguration {
  const ranges = given.addresses.map(({ address, gateway }): RangeSet => {
    const subnet = { address: networkAddress(address), prefixLength: address.prefixLength };
    return [{ subnet, rangeStart: address.address, rangeEnd: address.address, gateway, exclude: [] }];
  });
  checkExpressible(draft.cniVersion, ranges);
  const ipam = { ...draft.ipam, dataDir: delegatedDirectory(draft.runDir), ranges, routes: given.routes };
  const dns = Object.keys(draft.dns).length > 0 ? draft.dns : given.dns;
  const configuration = onNetwork(input, attachment.arguments, { ...draft, ipam, dns });
  const allocations = given.addresses.map(({ address, gateway }, set) => ({ address, gateway, set }));
  return { configuration, allocations };
}

/**
 * Passes a verb on to the external IPAM plugin that a configuration names.
 *
 * @returns whether there is one. A type that ADD refuses counts as none: STATUS reports it (cni/status/status.ts)
 * @throws CniError the plugin's answer
 */
export function passOn(
  node: PluginMachine,
  { self, environment, stdin }: PluginInput,
  { ipam }: NetworkInput | DetachInput,
  verb: "GC" | "STATUS",
): boolean {
  const type = usableType(ipam?.type, self);
  if (type !== undefined) runIpam(node, { type, environment, stdin }, verb);
  return type !== undefined;
}
