import { expectation } from "../../../cli/node/doctor/expectation.ts";
import { plainLink } from "../node_state/fake_node_state.ts";
import type { NodeFacts, PluginFile } from "../../../cli/node/doctor/facts.ts";
import type { CheckedLink } from "../../../policyd/problems/check.ts";
import type { NodePlace } from "../../../cli/node/place.ts";
import { canonicalRangeSets } from "../../../ipam/range.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { VERSION } from "../../../policyd/version.ts";
import { attachmentRecord } from "../cni/attachment_record.ts";

export const PLACE: NodePlace = {
  configurationDirectory: "/etc/cni/net.d",
  binaryDirectory: "/opt/cni/bin",
  dataDirectory: "/var/lib/cni/networks",
  stateDirectory: "/run/drawbridge",
  socket: "/run/drawbridge/policyd.sock",
  bridge: "drawbridge0",
  flowDirectory: "/var/lib/cni/drawbridge-flows",
  networkNamespace: undefined,
};

const RECORD = attachmentRecord();

/** Returns the facts of a correct executable in the directory of plugins. */
export function pluginFile(name: string, changes: Partial<PluginFile> = {}): PluginFile {
  return { name, isFile: true, isExecutable: true, isAsShipped: true, version: undefined, ...changes };
}

/** Returns a link that is up and has no further properties. */
export function link(index: number, name: string, changes: Partial<CheckedLink> = {}): CheckedLink {
  return { ...plainLink(index, name, undefined), vxlan: undefined, ...changes };
}

/** Returns the facts of a node without faults, with some changes. */
export function nodeFacts(changes: Partial<NodeFacts> = {}): NodeFacts {
  const expected = expectation(readConfiguration(undefined, { nodeName: { value: "node", where: "test" } }));
  return {
    place: PLACE,
    expected,
    now: Date.UTC(2026, 10, 22),
    bootId: { value: RECORD.bootId },
    bridge: PLACE.bridge,
    forwardDrops: { value: [] },
    kubeProxy: { value: [] },
    probed: { value: undefined },
    release: { value: "6.18.44" },
    trials: {
      value: [{ operation: "add rule inet drawbridge-trial c", needs: () => ["fib", "ct"], refusal: undefined }],
    },
    linkKinds: { value: (["bridge", "veth", "vxlan"] as const).map((kind) => ({ kind, isKnown: true })) },
    hasPacketLog: true,
    settings: new Map([
      ["net/ipv4/ip_forward", "1"],
      ["net/ipv6/conf/all/forwarding", "1"],
      ["net/ipv6/conf/all/disable_ipv6", "0"],
      ["net/netfilter/nf_conntrack_count", "10"],
      ["net/netfilter/nf_conntrack_max", "1000"],
    ]),
    links: {
      value: [
        link(1, "lo"),
        link(2, "eth0"),
        link(3, "drawbridge0", { kind: "bridge" }),
        link(4, RECORD.hostInterface, { kind: "veth", master: 3 }),
      ],
    },
    addresses: { value: [{ index: 3, address: parseCidr("10.244.1.1/24") }] },
    routes: { value: [] },
    discarding: { value: [] },
    directRoutes: { value: [] },
    ruleset: {
      value: {
        tables: expected.tables.map(({ family, name }) => ({
          family,
          name,
          comment: "drawbridge schema 0123456789abcdef",
          isOwned: false,
        })),
        chains: expected.tables.flatMap(({ family, name: table, hooks }) =>
          hooks.map(({ chain, hook, priority }) => ({
            family,
            table,
            name: chain,
            dropping: 0,
            base: { type: "filter", hook, priority, policy: "accept" as const },
          })),
        ),
        markWrites: [],
      },
    },
    legacyTables: [],
    udpPorts: new Set(),
    tcpPorts: new Set(),
    daemon: {
      value: {
        status: {
          version: VERSION,
          nodeName: "node-1",
          uptimeSeconds: 60,
          isSynced: true,
          objects: {},
          attachments: 1,
          problemCount: 0,
          problems: [],
        },
      },
    },
    configurations: { value: ["10-drawbridge.conflist"] },
    firstLeadsToOurs: { value: false },
    network: {
      value: {
        kind: "network",
        name: "drawbridge",
        types: ["drawbridge", "host-local"],
        ranges: canonicalRangeSets([[{ subnet: "10.244.1.0/29" }]], "ranges"),
        mtu: undefined,
      },
    },
    plugins: { value: [pluginFile("drawbridge", { version: { answer: "1.0.0" } })] },
    nodeState: { value: [] },
    unfilteredBridges: { value: [] },
    records: { value: { records: [RECORD], unreadable: [] } },
    reservations: { value: { directory: "/var/lib/cni/networks/drawbridge", reservations: [], strange: [] } },
    ...changes,
  };
}
