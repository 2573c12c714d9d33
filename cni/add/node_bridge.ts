import { bridgeMac } from "../../attachment/names_and_macs.ts";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram } from "../../kernel/bpf/own_program.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { type BridgeConfiguration, SMALLEST_IPV6_MTU } from "../configuration/configuration.ts";
import { CniError, CniErrorCode } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import type { Bridge } from "../wiring/wiring.ts";
import { ensureBridge, ensureForwarding } from "./bridge.ts";
import { withDirectoryLock } from "../../kernel/file_lock.ts";

/**
 * Finds or makes the configured bridge, switches forwarding on, and has the bridge filter checksums where the kernel
 * can; elsewhere `node doctor` reports it.
 *
 * @throws CniError for an MTU that is too small for IPv6, and what {@link ensureBridge} throws
 */
export function ensureNodeBridge(
  node: PluginMachine,
  { socket, sysctl }: { readonly socket: NetlinkSocket; readonly sysctl: Sysctl },
  configuration: BridgeConfiguration,
): Bridge {
  const gateway = configuration.ipam.ranges[0]?.[0]?.gateway;
  const bridge = ensureBridge(socket, sysctl, {
    name: configuration.bridge,
    mac: bridgeMac(node.sha256, configuration.bridge, gateway === undefined ? "" : formatAddress(gateway)),
    mtu: configuration.mtu,
  });
  ensureForwarding(socket, sysctl, bridge.name);
  const programs = { syscalls: node.syscalls, socket };
  if (!hasOwnProgram(programs, CHECKSUM_PROGRAM, bridge.index)) {
    node.files.makeDirectory(configuration.runDir, 0o700);
    // Of many first calls after a boot, only one reads the kernel's types.
    withDirectoryLock(node.syscalls, configuration.runDir, () =>
      filterChecksums(programs, bridge.index, (files) => node.rare().kernelChecksumProgram(files)),
    );
  }
  if (bridge.mtu < SMALLEST_IPV6_MTU && configuration.hasIpv6) {
    throw new CniError(
      CniErrorCode.INVALID_CONFIGURATION,
      `bridge: ${JSON.stringify(bridge.name)} has an MTU of ${bridge.mtu}; expected ${SMALLEST_IPV6_MTU} at least for IPv6: set mtu`,
    );
  }
  return bridge;
}
