import type { AttachmentRecord, Bandwidth, RecordedRules } from "../../attachment/attachment.ts";
import { MOST_NETWORKS } from "../../attachment/attachment_writer.ts";
import { type Cidr, outermost } from "../../kernel/ip/cidr.ts";
import type { NetworkNamespace } from "../../kernel/network_namespace.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import { type RangedConfiguration, unmasqueradedNetworks } from "../configuration/node_rules_configuration.ts";
import type { Attachment } from "../environment.ts";
import { invalidField } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import type { Shaping } from "../wiring/shaping.ts";
import type { Bridge, Wiring } from "../wiring/wiring.ts";

/** Returns the record of an attachment, by which DEL, GC, CHECK, the audit and policyd know it. */
export function recordOf(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  namespace: NetworkNamespace,
  { wiring, bridge }: { readonly wiring: Wiring; readonly bridge: Bridge },
): AttachmentRecord {
  const { pod } = attachment.arguments;
  return {
    version: 1,
    bootId: node.bootId(),
    network: configuration.name,
    dataDir: configuration.ipam.dataDir,
    bridge: configuration.bridge,
    containerId: attachment.containerId,
    ifname: attachment.ifname,
    netns: { path: namespace.path, inode: String(namespace.inode) },
    ...(pod === undefined ? {} : { pod }),
    addresses: wiring.addresses,
    mac: wiring.podMac,
    hostInterface: wiring.hostInterface,
    hostMac: wiring.hostMac,
    portMappings: configuration.portMappings,
    ...(configuration.ipMasq ? { ipMasq: true } : {}),
    ...(configuration.macspoofchk ? { macspoofchk: true } : {}),
    ...(wiring.shaping === undefined ? {} : { bandwidth: recordedBandwidth(wiring.shaping) }),
    ...(configuration.policyd === undefined ? {} : { policyd: recordedRules(configuration) }),
    host: {
      bridgeMac: bridge.mac,
      mtu: bridge.mtu,
      bridgeAddresses: wiring.bridgeAddresses,
      routes: wiring.hostRoutes,
      hairpin: wiring.hairpin,
      bypass: wiring.bypassBridge,
      isMacRequested: wiring.isMacRequested,
    },
  };
}

/** Returns the limits as the attachment record stores them: the values that were set, in bits. */
function recordedBandwidth({ toPod, fromPod }: Shaping): Bandwidth {
  return {
    ingressRate: (toPod?.rate ?? 0) * 8,
    ingressBurst: (toPod?.burst ?? 0) * 8,
    egressRate: (fromPod?.bucket.rate ?? 0) * 8,
    egressBurst: (fromPod?.bucket.burst ?? 0) * 8,
  };
}

/**
 * Returns the part of a configuration that the daemon needs to keep a pod's rules. Parts that the pod does not use are
 * omitted.
 *
 * @throws CniError 7 for more networks than a record may have
 */
export function recordedRules(configuration: RangedConfiguration): RecordedRules {
  const { portMappings, ipMasq, serviceCidrs } = configuration;
  return {
    serviceCidrs: portMappings.length === 0 ? [] : bounded("serviceCIDRs", serviceCidrs),
    nonMasqueradeCidrs: ipMasq ? bounded("nonMasqueradeCIDRs", unmasqueradedNetworks(configuration)) : [],
  };
}

function bounded(field: string, networks: readonly Cidr[]): readonly Cidr[] {
  const apart = outermost(networks);
  if (apart.length <= MOST_NETWORKS) return apart;
  throw invalidField(field, apart.length, `at most ${MOST_NETWORKS} networks apart from each other, with policyd`);
}
