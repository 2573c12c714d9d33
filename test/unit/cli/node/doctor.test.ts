import assert from "node:assert/strict";
import { CHECKS } from "../../../../cli/node/doctor/checks.ts";
import { diagnose } from "../../../../policyd/problems/diagnose.ts";
import { seen } from "../../../../policyd/problems/check.ts";
import type { NodeFacts } from "../../../../cli/node/doctor/facts.ts";
import type { RulesetOverview } from "../../../../kernel/nftables/decode/overview.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";
import { nodeOf, runOnNode } from "../../../support/cli/cli.ts";
import { assertGolden } from "../../../support/cli/golden.ts";
import { link, nodeFacts, pluginFile } from "../../../support/node/node_facts.ts";
import { TRIAL_CASES } from "../../../support/node/trial_cases.ts";
import { PROBE_CASES } from "../../../support/node/probe_cases.ts";
import { ROUTE_CASES } from "../../../support/node/route_cases.ts";
import { NODE_STATE_CASES } from "../../../support/node_state/doctor_cases.ts";

const HEALTHY = nodeFacts();
const RULESET = seen(HEALTHY.ruleset) ?? { tables: [], chains: [], markWrites: [] };
const LINKS = seen(HEALTHY.links) ?? [];
const RECORDS = seen(HEALTHY.records) ?? { records: [], unreadable: [] };

/** A node whose bridge and pods have these MTUs. */
function mtus(configured: number | undefined, bridge: number, ...ofPods: readonly number[]): Partial<NodeFacts> {
  const network = seen(HEALTHY.network);
  assert.ok(network?.kind === "network");
  const pods = ofPods.map((mtu, i) => ({
    mtu,
    record: attachmentRecord({ containerId: `${i}`, hostInterface: `dbv${i}` }),
  }));
  return {
    network: { value: { ...network, mtu: configured } },
    records: { value: { ...RECORDS, records: pods.map(({ record }) => record) } },
    links: {
      value: [
        ...LINKS.slice(0, 2),
        link(3, "drawbridge0", { kind: "bridge", mtu: bridge }),
        ...pods.map(({ mtu, record }, i) => link(4 + i, record.hostInterface, { kind: "veth", master: 3, mtu })),
      ],
    },
  };
}

const LEGACY = { legacyTables: ["ip filter"] };

function settings(...changed: readonly (readonly [string, string])[]): Partial<NodeFacts> {
  return { settings: new Map([...HEALTHY.settings, ...changed]) };
}

function ruleset(changes: Partial<RulesetOverview>): Partial<NodeFacts> {
  return { ruleset: { value: { ...RULESET, ...changes } } };
}

function foreignChain(
  type: string,
  hook: string,
  priority: number,
  policy: "accept" | "drop" = "accept",
  dropping = 0,
) {
  const base = { type, hook, priority, policy } as const;
  return ruleset({ chains: [...RULESET.chains, { family: "ip", table: "filter", name: "FORWARD", dropping, base }] });
}

function links(...added: Parameters<typeof link>[]): Partial<NodeFacts> {
  return { links: { value: [...LINKS, ...added.map((one) => link(...one))] } };
}

const VXLAN = {
  vni: 107,
  port: 4789,
  local: parseAddress("192.0.2.1"),
  learning: false,
  hasMore: false,
  hasOwnSocket: false,
};
/** The tunnel's own address. Routes do not matter: a VPN may have the default one. */
const UNDERLAY: Partial<NodeFacts> = {
  addresses: { value: [{ index: 2, address: parseCidr("192.0.2.1/24") }] },
};
const DAEMON = seen(HEALTHY.daemon);

function daemon(changes: object): Partial<NodeFacts> {
  assert.ok(DAEMON !== undefined && "status" in DAEMON);
  return { daemon: { value: { status: { ...DAEMON.status, ...changes } } } };
}

function reservations(value: object): Partial<NodeFacts> {
  return { reservations: { value: { directory: "/store", reservations: [], strange: [], ...value } } };
}

function reserved(last: number) {
  const address = parseAddress(`10.244.1.${last}`);
  return { kind: "owned", address, owner: { containerId: "c0ffee", ifname: "eth0" } } as const;
}

const EARLIER = attachmentRecord({ containerId: "gone", hostInterface: "dbv000000000001" });
const EARLIER_SANDBOX: Partial<NodeFacts> = {
  records: { value: { ...RECORDS, records: [attachmentRecord(), EARLIER] } },
};

/** The check, the broken facts, the severity, and the finding's text. */
const CASES: readonly (readonly [string, Partial<NodeFacts>, string, RegExp])[] = [
  ["kernel-version", { release: { value: "5.4.0-8-amd64" } }, "error", /kernel 5\.4/],
  ...NODE_STATE_CASES,
  ["kernel-version", { release: { value: "4.19.0" } }, "error", /kernel 4\.19/],
  ...TRIAL_CASES,
  ["kernel-features", { linkKinds: { value: [{ kind: "vxlan", isKnown: false }] } }, "error", /CONFIG_VXLAN/],
  ["kernel-features", { hasPacketLog: false }, "warning", /CONFIG_NETFILTER_NETLINK_LOG/],
  [
    "fragments",
    settings(["net/netfilter/nf_conntrack_frag6_high_thresh", "4194304"]),
    "warning",
    /^net\.netfilter\.nf_conntrack_frag6_high_thresh = 4194304, less than the \d+ of fragmentMemory$/,
  ],
  ["fragments", settings(["net/ipv4/ipfrag_high_thresh", "4194303"]), "warning", /^net\.ipv4\.ipfrag_high_thresh/],
  ["clock", { now: 0 }, "error", /1970-01-01/],
  [
    "ipv6",
    { ...settings(["net/ipv6/conf/all/disable_ipv6", "1"]), records: { value: { records: [], unreadable: [] } } },
    "info",
    /IPv6 is off/,
  ],
  ["forwarding", settings(["net/ipv4/ip_forward", "0"]), "error", /net\.ipv4\.ip_forward = 0/],
  ["forwarding", settings(["net/ipv6/conf/all/forwarding", "0"]), "error", /ipv6/],
  ["ipv6", settings(["net/ipv6/conf/all/disable_ipv6", "1"]), "error", /disable_ipv6 = 1/],
  ["localhost", settings(["net/ipv4/conf/drawbridge0/route_localnet", "1"]), "info", /drawbridge0\.route_localnet = 1/],
  ["localhost", settings(["net/ipv4/conf/all/route_localnet", "1"]), "info", /all\.route_localnet = 1/],
  ["redirects", settings(["net/ipv4/conf/all/send_redirects", "1"]), "warning", /all\.send_redirects = 1/],
  [
    "bridge-netfilter",
    settings(["net/bridge/bridge-nf-call-iptables", "1"], ["net/bridge/bridge-nf-call-ip6tables", "0"]),
    "warning",
    /ip6tables = 0/,
  ],
  [
    "reverse-path",
    settings(["net/ipv4/conf/all/rp_filter", "1"], ["net/ipv4/conf/drawbridge.vx/rp_filter", "0"]),
    "warning",
    /strict/,
  ],
  ["conntrack", settings(["net/netfilter/nf_conntrack_count", "800"]), "warning", /over 80 % of 1000/],
  ["conntrack", settings(["net/netfilter/nf_conntrack_count", "950"]), "error", /over 95 % of 1000/],
  [
    "daemon",
    { daemon: { value: { away: "cannot connect to /run/drawbridge/policyd.sock" } } },
    "error",
    /cannot connect/,
  ],
  ["daemon", daemon({ isSynced: false }), "warning", /not read all objects/],
  ["daemon", daemon({ version: "0.0.0-other" }), "warning", /release 0\.0\.0-other/],
  ["tables", ruleset({ tables: RULESET.tables.slice(1) }), "error", /bridge drawbridge is not loaded/],
  [
    "tables",
    ruleset({ tables: RULESET.tables.map((table) => ({ ...table, comment: "mine" })) }),
    "error",
    /is not ours: its comment is "mine"/,
  ],
  ["tables", ruleset({ chains: RULESET.chains.slice(1) }), "error", /does not hook into/],
  [
    "foreign-drops",
    foreignChain("filter", "forward", 0, "drop"),
    "info",
    /ip filter FORWARD \(hook forward, priority 0, policy drop, 0 rules\)/,
  ],
  [
    "foreign-drops",
    { forwardDrops: { value: [{ family: "ip", table: "filter", chain: "FORWARD" }] } },
    "error",
    /ip filter FORWARD drops what pods send/,
  ],
  ["foreign-drops", foreignChain("filter", "input", 0, "accept", 1), "info", /policy accept, 1 rule\)/],
  ...PROBE_CASES,
  ...ROUTE_CASES,
  ["foreign-drops", LEGACY, "info", /iptables-legacy has the table ip filter/],
  ["kube-proxy", links([9, "kube-ipvs0"]), "warning", /kube-ipvs0/],
  ["kube-proxy", { kubeProxy: { value: ["ip nat KUBE-SERVICES"] } }, "warning", /in ip nat KUBE-SERVICES/],
  ["priorities", foreignChain("nat", "prerouting", -101), "warning", /at -101, before Services at -100/],
  [
    "marks",
    ruleset({ markWrites: [{ family: "ip", table: "m", chain: "c", bits: 0xff000000 }] }),
    "warning",
    /ip m c writes bits 0x30000000/,
  ],
  [
    "pod-networks",
    { addresses: { value: [{ index: 2, address: parseCidr("10.244.0.5/16") }] } },
    "error",
    /10\.244\.0\.5\/16 of eth0/,
  ],
  ["tunnel", links([9, "flannel.1", { kind: "vxlan", vxlan: { ...VXLAN, vni: 1 } }]), "info", /flannel\.1/],
  ["tunnel", links([9, "vxlan.calico", { kind: "vxlan", vxlan: VXLAN }]), "error", /VNI 107/],
  ["tunnel", { udpPorts: new Set([4789]) }, "error", /bound to UDP port 4789/],
  [
    "tunnel",
    links([9, "drawbridge.vx", { kind: "vxlan", vxlan: { ...VXLAN, vni: 1 }, mtu: 1450 }]),
    "warning",
    /has VNI 1/,
  ],
  [
    "mtu",
    { ...links([9, "drawbridge.vx", { kind: "vxlan", vxlan: VXLAN, mtu: 1451 }]), ...UNDERLAY },
    "warning",
    /1451; eth0 with 1500 leaves 1450/,
  ],
  ["mtu", mtus(1500, 1500, 1400, 1500), "warning", /drawbridge0 has an MTU of 1500; .* is 1400$/],
  ["mtu", mtus(1500, 1400, 1500), "warning", /drawbridge0 has an MTU of 1400; .* is 1500$/],
  ["mtu", mtus(1400, 1500), "warning", /drawbridge0 has an MTU of 1500; .* is 1400$/],
  ["mtu", mtus(1400, 1400, 1400, 1500), "warning", /^dbv1 has an MTU of 1500, the network configuration 1400$/],
  ["mtu", mtus(undefined, 1400, 1400, 1500), "warning", /^dbv1 has an MTU of 1500, its bridge drawbridge0 1400$/],
  [
    "cni-configuration",
    { configurations: { value: ["05-x.conf", "10-drawbridge.conflist"] } },
    "error",
    /05-x\.conf comes before/,
  ],
  ["cni-configuration", { network: { value: { kind: "missing" } } }, "error", /is missing/],
  ["cni-configuration", { network: { value: { kind: "broken", reason: "no JSON" } } }, "error", /no JSON/],
  [
    "cni-plugin",
    { plugins: { value: [pluginFile("portmap", { isFile: false, isExecutable: false, isAsShipped: undefined })] } },
    "error",
    /portmap is not a file/,
  ],
  [
    "cni-plugin",
    { plugins: { value: [pluginFile("drawbridge", { isExecutable: false })] } },
    "error",
    /not executable/,
  ],
  [
    "cni-plugin",
    { plugins: { value: [pluginFile("drawbridge", { isAsShipped: false })] } },
    "warning",
    /drawbridge is not the file that \/opt\/drawbridge\/cni has for it/,
  ],
  ["attachments", { links: { value: LINKS.slice(0, 3) } }, "warning", /of default\/web-0 eth0 is gone/],
  ["attachments", EARLIER_SANDBOX, "warning", /of an earlier sandbox of default\/web-0 eth0 is gone/],
  [
    "attachments",
    { records: { value: { ...RECORDS, records: [attachmentRecord({ bootId: "x" })] } } },
    "warning",
    /another boot/,
  ],
  [
    "addresses",
    reservations({ reservations: [{ ...reserved(3), owner: { containerId: "gone", ifname: "eth0" } }] }),
    "warning",
    /10\.244\.1\.3 of gone/,
  ],
  [
    "addresses",
    reservations({ reservations: [{ kind: "unreadable", address: parseAddress("10.244.1.3") }] }),
    "warning",
    /nobody/,
  ],
  ["addresses", reservations({ strange: ["core"] }), "info", /core/],
  ["addresses", reservations({ reservations: [2, 3, 4, 5, 6].map(reserved) }), "warning", /all 5 addresses/],
];

describe("cli/node: doctor", () => {
  it("DOCTOR-01: a healthy node has no findings", () => {
    assert.deepEqual(diagnose(HEALTHY, CHECKS), { findings: [], unseen: [] });
  });

  it("DOCTOR-01 POD-15: a bridge with the smallest MTU of its pods is right, and so are newer pods with the configured one", () => {
    assert.deepEqual(diagnose(nodeFacts(mtus(1500, 1400, 1400, 1500)), CHECKS).findings, []);
    const larger = diagnose(nodeFacts(mtus(1400, 1500, 1500)), CHECKS).findings;
    assert.deepEqual(
      larger.map(({ way }) => way),
      ["recreate the pod, or ip link set dbv0 mtu 1400"],
      "the daemon would take back a change of the bridge",
    );
  });

  for (const [check, changes, severity, text] of CASES) {
    it(`DOCTOR-01: ${check} finds ${text.source}, and no other check finds anything`, () => {
      const { findings } = diagnose(nodeFacts(changes), CHECKS);
      assert.deepEqual(
        findings.map((one) => [one.check, one.severity]),
        findings.map(() => [check, severity]),
      );
      assert.ok(
        findings.some(({ what }) => text.test(what)),
        JSON.stringify(findings),
      );
      for (const { why, way } of findings) assert.ok(why.length > 20 && way.length > 10, way);
    });
  }

  it("DOCTOR-01: for the record of a pod's earlier sandbox the way out is node audit --repair, and not to delete the pod", () => {
    const { findings } = diagnose(nodeFacts(EARLIER_SANDBOX), CHECKS);
    assert.deepEqual(
      findings.map(({ way }) => way),
      ["drawbridge node audit --repair"],
    );
  });

  it("DOCTOR-05: facts that cannot be read are reported for each check that needs them, and the other checks run", () => {
    const reason = "list tables: operation not permitted (EPERM); run as root";
    const { findings, unseen } = diagnose(nodeFacts({ ruleset: { unseen: reason }, now: 0 }), CHECKS);
    assert.deepEqual(
      unseen.map(({ check }) => check),
      ["tables", "foreign-drops", "priorities", "marks"],
    );
    assert.ok(unseen.every((one) => one.reason === reason));
    assert.deepEqual(
      findings.map(({ check }) => check),
      ["clock"],
    );
  });

  const doctor = (facts: NodeFacts, ...args: readonly string[]) =>
    runOnNode(["node", "doctor", ...args], nodeOf({ readFacts: () => facts }), { columns: 110 });

  const BROKEN = nodeFacts({
    ...settings(["net/ipv4/ip_forward", "0"]),
    ...foreignChain("filter", "forward", 0, "drop"),
    ...LEGACY,
    records: { unseen: "cannot list /run/drawbridge/attachments: permission denied (EACCES); run as root" },
  });

  for (const format of ["table", "json"]) {
    it(`DOCTOR-06: -o ${format} is as in node/doctor/report.${format}, with exit code 1`, async () => {
      const outcome = await doctor(BROKEN, "-o", format);
      assert.equal(outcome.code, 1, outcome.err);
      assertGolden(`node/doctor/report.${format}`, outcome.out);
    });
  }

  it("DOCTOR-05: a check that cannot run is not an error, unless root could run it or no check ran", async () => {
    const fields = [...new Set(CHECKS.flatMap(({ needs }) => needs))];
    assert.ok(fields.length > 10);
    for (const field of fields) {
      const inContainer = await doctor({ ...HEALTHY, [field]: { unseen: "not in this container" } });
      assert.equal(inContainer.code, 0, `${field}: ${inContainer.out}`);
      assert.match(inContainer.out, /^not checked: [a-z-]+: not in this container$/m, field);
      const notRoot = await doctor({ ...HEALTHY, [field]: { unseen: "EPERM; run as root", needsRoot: true } });
      assert.equal(notRoot.code, 3, field);
    }
    const unseen = { unseen: "not in this container" };
    const nothing = { ...HEALTHY, ...Object.fromEntries(fields.map((field) => [field, unseen])) };
    assert.equal(
      (await doctor(nothing, "--only", "addresses,attachments")).code,
      3,
      "none of the chosen checks could run",
    );
  });

  it("DOCTOR-17: only --probe attaches pods; a probe that is not possible is reported, and the exit code is 3", async () => {
    assert.equal((await doctor(HEALTHY, "--only", "probe")).code, 2);
    const probes: unknown[] = [];
    const probe = (facts: NodeFacts) => {
      probes.push(facts);
      return Promise.resolve({ unseen: "run it on the node itself, not in a container" });
    };
    const node = nodeOf({ readFacts: () => HEALTHY, probe });
    assert.equal((await runOnNode(["node", "doctor"], node)).code, 0);
    assert.deepEqual(probes, []);
    const { code, out } = await runOnNode(["node", "doctor", "--probe"], node);
    assert.equal(code, 3);
    assert.match(out, /^not checked: probe: run it on the node itself/m);
    assert.deepEqual(probes, [HEALTHY]);
  });
});
