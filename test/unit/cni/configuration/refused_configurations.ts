import { ipamInput, networkInput } from "../../../support/cni/cni.ts";

/**
 * The error code of the specification, the configuration, and texts that the refusal contains: the field, the value,
 * the expectation.
 */
export type RefusedConfiguration = readonly [code: number, input: Record<string, unknown>, ...says: readonly string[]];

function ranges(...sets: readonly unknown[]): Record<string, unknown> {
  return ipamInput({ ranges: sets });
}

function bandwidth(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return networkInput({ runtimeConfig: { bandwidth: values } });
}

const web = { HostPort: 80, ContainerPort: 8080, Protocol: "tcp", HostIP: "" };

function ports(...portMappings: readonly unknown[]): Record<string, unknown> {
  return networkInput({ runtimeConfig: { portMappings } });
}

/** Configurations that an ADD refuses before anything is made. */
export const refusedConfigurations: readonly RefusedConfiguration[] = [
  // Version, name and type (P7).
  [1, networkInput({ cniVersion: "99.0.0" }), "incompatible CNI versions", '"99.0.0"'],
  [7, networkInput({ name: undefined }), "missing network name", "set name"],
  [7, networkInput({ name: "a%b" }), "invalid characters found in network name", '"a%b"', "letters, digits"],
  [7, networkInput({ type: undefined }), "type: missing", "file name"],
  [7, networkInput({ type: "../drawbridge" }), 'type: "../drawbridge"', "without a path"],
  // The interface plugin's own fields.
  [7, networkInput({ bridge: "all" }), 'bridge: "all"'],
  [7, networkInput({ runDir: "/run/../etc" }), 'runDir: "/run/../etc"', 'without ".."'],
  [7, networkInput({ runDir: "/run\0" }), "runDir: ", "absolute path"],
  [7, networkInput({ mtu: 1279 }), "mtu: 1279", "1280 to 65535", "IPv6 needs 1280"],
  [7, networkInput({ mtu: 65536 }), "mtu: 65536", "1280 to 65535"],
  [7, networkInput({ mtu: 1400.5 }), "mtu: 1400.5"],
  [7, networkInput({ mtu: 67, ipam: { type: "host-local", subnet: "10.244.1.0/24" } }), "mtu: 67", "68 to 65535"],
  [7, networkInput({ runtimeConfig: { mac: "x" } }), 'runtimeConfig.mac: "x"', "MAC address"],
  [7, networkInput({ args: { cni: { mac: "01:00:5e:00:00:01" } } }), 'args.cni.mac: "01:00:5e:00:00:01"', "unicast"],
  [7, networkInput({ dns: { nameservers: [53] } }), "dns.nameservers[0]: 53; expected string"],
  [7, networkInput({ dns: { options: [5] } }), "dns.options[0]: 5; expected string"],
  [7, networkInput({ prevResult: "x" }), 'prevResult: "x"; expected object'],
  // Addresses.
  [7, networkInput({ ipam: undefined }), "ipam: missing", "host-local"],
  [7, networkInput({ ipam: {} }), "ipam.type: missing"],
  [7, ipamInput({ type: "../host-local" }), 'ipam.type: "../host-local"', "without a path"],
  [7, ipamInput({ dataDir: "networks" }), 'ipam.dataDir: "networks"', "absolute path"],
  [7, ipamInput({ resolvConf: "resolv.conf" }), 'ipam.resolvConf: "resolv.conf"', "absolute path"],
  [7, ranges(), "ipam.ranges: no IP ranges specified", "at least one"],
  [7, ranges([]), "ipam.ranges[0]: empty range set"],
  [7, ranges([{}]), "ipam.ranges[0][0].subnet: missing"],
  [7, ranges([{ subnet: "10.0.0.0/24" }, { subnet: "fd00::/64" }]), "ipam.ranges[0][1].subnet: mixed address families"],
  [
    7,
    ranges([{ subnet: "10.0.0.0/24", rangeEnd: "10.0.1.1" }]),
    "ipam.ranges[0][0].rangeEnd: RangeEnd 10.0.1.1 not in network 10.0.0.0/24",
  ],
  [7, ranges([{ subnet: "10.0.0.0/24", gateway: "10.0.1.1" }]), 'gateway: "10.0.1.1"', "an address of 10.0.0.0/24"],
  [
    7,
    ranges([{ subnet: "10.0.0.0/24", exclude: ["10.1.0.0/24"] }]),
    "ipam.ranges[0][0].exclude[0]: 10.1.0.0/24 not in network",
  ],
  // A refusal names the field as it was written, also where host-local puts other ranges before it.
  [7, ipamInput({ subnet: "10.0.0.1/24" }), "ipam.subnet: 10.0.0.1/24: Network has host bits set"],
  [7, ipamInput({ subnet: "" }), 'ipam.subnet: ""'],
  [
    7,
    ipamInput({ subnet: "10.2.0.0/24", ranges: [[{ subnet: "10.0.0.1/24" }]] }),
    "ipam.ranges[0][0].subnet: 10.0.0.1/24: Network has host bits",
  ],
  [
    7,
    networkInput({ runtimeConfig: { ipRanges: [[{ subnet: "x" }]] } }),
    'runtimeConfig.ipRanges[0][0].subnet: "x" is not a prefix',
  ],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0" }] }), 'ipam.routes[0].dst: "10.0.0.0" is not a prefix'],
  [
    7,
    ipamInput({ routes: [{ dst: "10.0.0.0/8" }, { dst: "10.0.0.1/8" }] }),
    'ipam.routes[1].dst: "10.0.0.1/8"',
    "without host bits",
  ],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0/8", gw: "x" }] }), 'ipam.routes[0].gw: "x" is not an IP address'],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0/8", gw: "fd00::1" }] }), 'ipam.routes[0].gw: "fd00::1"', "an IPv4 address"],
  [7, ipamInput({ routes: [{ gw: "10.0.0.1" }] }), "ipam.routes[0].dst: missing"],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0/8", mtu: 65536 }] }), "ipam.routes[0].mtu: 65536", "0 (absent) to 65535"],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0/8", advmss: -1 }] }), "ipam.routes[0].advmss: -1", "an integer"],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0/8", priority: 0.5 }] }), "ipam.routes[0].priority: 0.5", "an integer"],
  [7, ipamInput({ routes: [{ dst: "10.0.0.0/8", table: 2 ** 32 }] }), "ipam.routes[0].table: 4294967296", "4294967295"],
  [2, ipamInput({ routes: [{ dst: "10.0.0.0/8", scope: 253 }] }), "ipam.routes[0].scope: 253 is not supported"],
  [7, networkInput({ args: { cni: { ips: ["10.244.1.7", "x"] } } }), 'args.cni.ips[1]: "x" is not an IP address'],
  [
    7,
    networkInput({ runtimeConfig: { ips: ["10.244.1.7/33"] } }),
    'runtimeConfig.ips[0]: "10.244.1.7/33" is not a prefix',
  ],
  [
    2,
    { ...ranges([{ subnet: "fd00:1::/64" }], [{ subnet: "fd00:2::/64" }]), cniVersion: "0.2.0" },
    "CNI version 0.2.0 does not support more than 1 address per family",
    "0.3.0 or later",
  ],
  // This version does not have these features. They are refused, since a pod without them is not what was asked for.
  [2, networkInput({ isGateway: false }), "isGateway: false is not supported", "true or absent"],
  [2, networkInput({ forceAddress: true }), "forceAddress: true is not supported", "false or absent"],
  [2, networkInput({ promiscMode: true }), "promiscMode: true", "hairpinMode"],
  [2, networkInput({ enabledad: true }), "enabledad: true"],
  [2, networkInput({ disableContainerInterface: true }), "disableContainerInterface: true"],
  [2, networkInput({ portIsolation: true }), "portIsolation: true"],
  [2, networkInput({ vlan: 100 }), "vlan: 100", "0 or absent"],
  [2, networkInput({ vlanTrunk: [{ id: 1 }] }), 'vlanTrunk: [{"id":1}]'],
  [2, networkInput({ routed: false }), "routed: false"],
  [7, networkInput({ policyd: { onUnavailable: "open" } }), 'policyd.onUnavailable: "open"; expected fail or closed'],
  [7, networkInput({ policyd: { socket: "run/policyd.sock" } }), 'policyd.socket: "run/policyd.sock"'],
  [7, networkInput({ policyd: { wait: "0s" } }), 'policyd.wait: "0s"'],
  [7, networkInput({ policyd: { wait: "1h" } }), 'policyd.wait: "1h"'],
  [2, networkInput({ ipMasqBackend: "iptables" }), 'ipMasqBackend: "iptables" is not supported', "nftables or absent"],
  [2, networkInput({ backend: "iptables" }), 'backend: "iptables" is not supported', "nftables or absent"],
  [2, networkInput({ snat: false }), "snat: false is not supported", "true or absent", "reaches itself"],
  [2, networkInput({ masqAll: true }), "masqAll: true is not supported"],
  [2, networkInput({ markMasqBit: 13 }), "markMasqBit: 13 is not supported", "absent"],
  [2, networkInput({ externalSetMarkChain: "X" }), 'externalSetMarkChain: "X" is not supported'],
  [2, networkInput({ conditionsV4: ["!", "-d", "10.0.0.0/8"] }), "conditionsV4: ", "hostIP or serviceCIDRs"],
  [2, networkInput({ conditionsV6: ["x"] }), 'conditionsV6: ["x"]', "hostIP or serviceCIDRs"],
  // Masquerade.
  [7, networkInput({ nonMasqueradeCIDRs: ["10.0.0.0"] }), 'nonMasqueradeCIDRs[0]: "10.0.0.0" is not a prefix'],
  // Host ports.
  [7, networkInput({ serviceCIDRs: ["fd00:96::/112", "fd00::1/64"] }), 'serviceCIDRs[1]: "fd00::1/64"', "fd00::/64"],
  [7, ports(web, { ...web, Protocol: "icmp" }), 'runtimeConfig.portMappings[1].protocol: "icmp"; expected'],
  [7, ports({ ...web, HostPort: 0 }), "portMappings[0].hostPort: 0; expected an integer of 1 to 65535"],
  [7, ports({ ...web, HostPort: 65536 }), "portMappings[0].hostPort: 65536; expected"],
  [7, ports({ ...web, HostPort: 80.5 }), "portMappings[0].hostPort: 80.5; expected"],
  [7, ports({ ...web, ContainerPort: -1 }), "portMappings[0].containerPort: -1; expected"],
  [7, ports({ ...web, HostIP: "fe80::1" }), 'portMappings[0].hostIP: "fe80::1"', "link-local"],
  [7, ports({ ...web, HostIP: "224.0.0.1" }), 'portMappings[0].hostIP: "224.0.0.1"', "multicast"],
  [7, ports({ ...web, HostIP: "255.255.255.255" }), "portMappings[0].hostIP: ", "broadcast"],
  [7, ports({ ...web, HostIP: "::ffff:192.0.2.1" }), "portMappings[0].hostIP: ", "IPv4 address in its own form"],
  [7, ports(web, { ...web, ContainerPort: 81 }), "portMappings[1].hostPort: 80; expected a port of its own: portM"],
  [
    7,
    ports({ ...web, ContainerPort: 81, HostIP: "::" }, web),
    "portMappings[0].hostPort: 80",
    "portMappings[1] has it",
  ],
  [
    7,
    {
      ...ports(...Array.from({ length: 1024 }, (_, i) => ({ ...web, HostPort: i + 1 }))),
      serviceCIDRs: Array.from({ length: 9 }, (_, i) => `10.${i}.0.0/16`),
    },
    "runtimeConfig.portMappings.length: 1024; expected at most 910 mappings for one pod, with 9 serviceCIDRs",
  ],
  // Bandwidth.
  [7, bandwidth({ ingressRate: 999, ingressBurst: 1 }), "bandwidth.ingressRate: 999; expected", "1000 to 1000000000"],
  [7, bandwidth({ egressRate: 1e15 + 1, egressBurst: 1 }), "bandwidth.egressRate: 1000000000000001; expected"],
  [7, bandwidth({ egressRate: 1000.5, egressBurst: 1 }), "bandwidth.egressRate: 1000.5; expected", "integer"],
  [7, bandwidth({ egressRate: 20e6, egressBurst: -1 }), "bandwidth.egressBurst: -1; expected", "0 to 2^64"],
  [7, bandwidth({ egressRate: 20e6, egressBurst: 0.5 }), "bandwidth.egressBurst: 0.5; expected", "integer"],
  [7, bandwidth({ egressRate: 20e6, egressBurst: 1e20 }), "bandwidth.egressBurst: 100000000000000000000; expected"],
  [
    7,
    bandwidth({ ingressRate: 20e6 }),
    "bandwidth.ingressBurst: 0; expected",
    "ingressRate 20000000",
    "both or neither",
  ],
  [7, bandwidth({ egressBurst: 8000 }), "bandwidth.egressRate: 0; expected", "egressBurst 8000", "both or neither"],
];
