import { decodeConfiguration } from "../../../cni/configuration.ts";
import type { CniArguments } from "../../../cni/environment.ts";
import { assertRefusal, configurationOf, ipamInput, networkInput, noArguments } from "../../support/cni.ts";

/** Code of the specification, configuration, and what the refusal names: the field, the value, the expectation. */
type Row = readonly [code: number, input: Record<string, unknown>, ...says: readonly string[]];

function ranges(...sets: readonly unknown[]): Record<string, unknown> {
  return ipamInput({ ranges: sets });
}

const rows: readonly Row[] = [
  // Version, name and type (P7).
  [1, networkInput({ cniVersion: "foo" }), "incompatible CNI versions", '"foo"', '"1.1.0"'],
  [1, networkInput({ cniVersion: "99.0.0" }), "incompatible CNI versions", '"99.0.0"'],
  [1, networkInput({ cniVersion: 1 }), "config is 1"],
  [7, networkInput({ name: undefined }), "missing network name", "set name"],
  [7, networkInput({ name: "" }), "missing network name"],
  [7, networkInput({ name: "a%b" }), "invalid characters found in network name", '"a%b"', "letters, digits"],
  [7, networkInput({ name: "../x" }), "network name", '"../x"'],
  [7, networkInput({ name: "a/b" }), "network name", '"a/b"'],
  [7, networkInput({ name: ".drawbridge" }), "network name", '".drawbridge"'],
  [7, networkInput({ name: "x".repeat(201) }), "network name", "at most 200"],
  [7, networkInput({ name: 7 }), "name: 7; expected string"],
  [7, networkInput({ type: undefined }), "type: missing", "file name"],
  [7, networkInput({ type: "" }), 'type: ""', "file name"],
  [7, networkInput({ type: "../drawbridge" }), 'type: "../drawbridge"', "without a path"],
  [7, networkInput({ type: "/bin/sh" }), 'type: "/bin/sh"', "without a path"],
  // The interface plugin's own fields.
  [7, networkInput({ bridge: "" }), 'bridge: ""', "interface name"],
  [7, networkInput({ bridge: "0123456789abcdef" }), 'bridge: "0123456789abcdef"', "1 to 15 bytes"],
  [7, networkInput({ bridge: "../x" }), 'bridge: "../x"'],
  [7, networkInput({ bridge: "br%d" }), 'bridge: "br%d"', '"%"'],
  [7, networkInput({ bridge: "all" }), 'bridge: "all"'],
  [7, networkInput({ runDir: "run" }), 'runDir: "run"', "absolute path"],
  [7, networkInput({ runDir: "/run/../etc" }), 'runDir: "/run/../etc"', 'without ".."'],
  [7, networkInput({ runDir: "/run\0" }), "runDir: ", "absolute path"],
  [7, networkInput({ mtu: "1400" }), 'mtu: "1400"; expected number'],
  [7, networkInput({ mtu: 1279 }), "mtu: 1279", "1280 to 65535", "IPv6 needs 1280"],
  [7, networkInput({ mtu: 65536 }), "mtu: 65536", "1280 to 65535"],
  [7, networkInput({ mtu: -1 }), "mtu: -1"],
  [7, networkInput({ mtu: 1400.5 }), "mtu: 1400.5"],
  [7, networkInput({ mtu: 67, ipam: { type: "host-local", subnet: "10.244.1.0/24" } }), "mtu: 67", "68 to 65535"],
  [7, networkInput({ hairpinMode: "true" }), 'hairpinMode: "true"; expected boolean'],
  [7, networkInput({ runtimeConfig: { mac: "x" } }), 'runtimeConfig.mac: "x"', "MAC address"],
  [7, networkInput({ args: { cni: { mac: "01:00:5e:00:00:01" } } }), 'args.cni.mac: "01:00:5e:00:00:01"', "unicast"],
  [7, networkInput({ dns: { nameservers: [53] } }), "dns.nameservers.0: 53; expected string"],
  [7, networkInput({ prevResult: "x" }), 'prevResult: "x"; expected Object'],
  // Addresses.
  [7, networkInput({ ipam: undefined }), "ipam: missing", "host-local"],
  [7, networkInput({ ipam: {} }), "ipam.type: missing"],
  [7, networkInput({ ipam: "host-local" }), 'ipam: "host-local"; expected Object'],
  [2, ipamInput({ type: "static" }), 'ipam.type: "static"', "host-local, drawbridge-ipam"],
  [7, ipamInput({ type: "../host-local" }), 'ipam.type: "../host-local"', "without a path"],
  [7, ipamInput({ type: "/opt/cni/bin/host-local" }), 'ipam.type: "/opt/cni/bin/host-local"', "without a path"],
  [7, ipamInput({ dataDir: "networks" }), 'ipam.dataDir: "networks"', "absolute path"],
  [7, ipamInput({ dataDir: "/var/lib/cni/../../../etc" }), "ipam.dataDir: ", 'without ".."'],
  [7, ipamInput({ dataDir: ["/x"] }), 'ipam.dataDir: ["/x"]; expected string'],
  [7, ipamInput({ resolvConf: "resolv.conf" }), 'ipam.resolvConf: "resolv.conf"', "absolute path"],
  [7, ranges(), "ipam.ranges: no IP ranges specified", "at least one"],
  [7, ranges([]), "ipam.ranges[0]: empty range set"],
  [7, ranges({}), "ipam.ranges.0: {}; expected Array"],
  [7, ranges([{}]), "ipam.ranges.0.0.subnet: missing; expected"],
  [
    7,
    ranges([{ subnet: "010.0.0.0/24" }]),
    'ipam.ranges[0][0].subnet: "010.0.0.0/24"',
    "expected an address, a slash and a length",
  ],
  [
    7,
    ranges([{ subnet: "10.0.0.1/24" }]),
    "ipam.ranges[0][0].subnet: 10.0.0.1/24: Network has host bits set",
    "expected 10.0.0.0/24",
  ],
  [7, ranges([{ subnet: "10.0.0.0/31" }]), "ipam.ranges[0][0].subnet: Network 10.0.0.0/31 too small", "/30 or shorter"],
  [7, ranges([{ subnet: "10.0.0.0/24" }, { subnet: "fd00::/64" }]), "ipam.ranges[0][1].subnet: mixed address families"],
  [7, ranges([{ subnet: "10.0.0.0/24" }], [{ subnet: "10.0.0.0/25" }]), "ipam.ranges[1]: range set 0 overlaps with 1"],
  [
    7,
    ranges([{ subnet: "10.0.0.0/24", rangeEnd: "10.0.1.1" }]),
    "ipam.ranges[0][0].rangeEnd: RangeEnd 10.0.1.1 not in network 10.0.0.0/24",
  ],
  [7, ranges([{ subnet: "10.0.0.0/24", gateway: "fd00::1" }]), "ipam.ranges[0][0].gateway: fd00::1", "IPv4"],
  [7, ranges([{ subnet: "10.0.0.0/24", gateway: "10.0.1.1" }]), 'gateway: "10.0.1.1"', "an address of 10.0.0.0/24"],
  [
    7,
    ranges([{ subnet: "10.0.0.0/24", exclude: ["10.1.0.0/24"] }]),
    "ipam.ranges[0][0].exclude[0]: 10.1.0.0/24 not in network",
  ],
  // A refusal names the field as it was written, also where host-local puts other ranges before it.
  [7, ipamInput({ subnet: "10.0.0.1/24" }), "ipam.subnet: 10.0.0.1/24: Network has host bits set"],
  [7, ipamInput({ subnet: "" }), 'ipam.subnet: ""'],
  [7, ipamInput({ subnet: "10.2.0.0/24", rangeStart: "x" }), 'ipam.rangeStart: "x" is not an IP address'],
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
  [7, ipamInput({ routes: [{ gw: "10.0.0.1" }] }), "ipam.routes.0.dst: missing"],
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
  // Features this version does not have: refused, since a pod without them would not be what was asked for.
  [2, networkInput({ isGateway: false }), "isGateway: false is not supported", "true or absent"],
  [2, networkInput({ ipMasq: true }), "ipMasq: true is not supported", "false or absent"],
  [2, networkInput({ promiscMode: true }), "promiscMode: true", "hairpinMode"],
  [2, networkInput({ macspoofchk: true }), "macspoofchk: true"],
  [2, networkInput({ enabledad: true }), "enabledad: true"],
  [2, networkInput({ disableContainerInterface: true }), "disableContainerInterface: true"],
  [2, networkInput({ portIsolation: true }), "portIsolation: true"],
  [2, networkInput({ vlan: 100 }), "vlan: 100", "0 or absent"],
  [2, networkInput({ vlan: -100 }), "vlan: -100"],
  [2, networkInput({ vlanTrunk: [{ id: 1 }] }), 'vlanTrunk: [{"id":1}]'],
  [2, networkInput({ routed: false }), "routed: false"],
  [2, networkInput({ policyd: {} }), "policyd: {}"],
  [
    2,
    networkInput({ runtimeConfig: { portMappings: [{ HostPort: 80 }] } }),
    'runtimeConfig.portMappings: [{"HostPort":80}]',
  ],
  [2, networkInput({ RUNTIMECONFIG: { PortMappings: [1] } }), "runtimeConfig.portMappings: [1]"],
  [2, networkInput({ runtimeConfig: { bandwidth: { ingressRate: 1 } } }), "runtimeConfig.bandwidth: "],
];

describe("cni/configuration refuses", () => {
  for (const [code, input, ...says] of rows) {
    it(`with code ${code}: ${says.join(" … ").slice(0, 100)}`, () => {
      assertRefusal(() => configurationOf(input), { code, says });
    });
  }

  const badArguments: readonly (readonly [Partial<CniArguments>, ...string[]])[] = [
    [{ ip: "10.244.1.256" }, 'CNI_ARGS IP: "10.244.1.256" is not an IP address'],
    [{ ip: "10.244.1.7/x" }, 'CNI_ARGS IP: "10.244.1.7/x" is not a prefix'],
    [{ mac: "0a:58" }, 'CNI_ARGS MAC: "0a:58" is not a unicast MAC address'],
  ];
  for (const [args, ...says] of badArguments) {
    it(`with code 7: ${says.join()}`, () => {
      assertRefusal(() => configurationOf(networkInput(), { ...noArguments, ...args }), { code: 7, says });
    });
  }

  for (const text of ["", " ", "{", "nonsense", '{"name":}', '{"a":1}x', "\u0000", "{'a':1}"]) {
    it(`with code 6: ${JSON.stringify(text)}, which is not JSON (P7)`, () => {
      assertRefusal(() => decodeConfiguration(text), { code: 6, says: ["standard input is not JSON", "expected"] });
    });
  }

  for (const text of ["null", "1", '"x"', "[]", "[{}]", "true"]) {
    it(`with code 6: ${text}, which is no object (P7)`, () => {
      assertRefusal(() => decodeConfiguration(text), { code: 6, says: ["not a JSON object", "expected"] });
    });
  }

  it("with code 6: objects and lists deeper than any configuration, before their depth can harm", () => {
    for (const key of ["policyd", "cniVersion", "prevResult", "other"]) {
      const text = `{"name":"pods","${key}":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
      assertRefusal(() => decodeConfiguration(text), { code: 6, says: ["deeper than 64 levels"] });
    }
  });

  it("with a message of bounded length, however long the value", () => {
    for (const key of ["mtu", "cniVersion", "policyd", "type"]) {
      const input = networkInput({ [key]: `%${"x".repeat(100_000)}` });
      assertRefusal(() => configurationOf(input), {
        code: key === "cniVersion" ? 1 : key === "policyd" ? 2 : 7,
        says: ["xxx…"],
      });
    }
  });
});
