import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import { CHECKS } from "../../../cli/node/doctor/checks.ts";
import { diagnose, seen } from "../../../cli/node/doctor/diagnose.ts";
import { expectation } from "../../../cli/node/doctor/expectation.ts";
import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import { type LostFlows, lostFlows } from "../../../cli/node/doctor/flows/lost_flows.ts";
import { samplePackets } from "../../../cli/node/doctor/flows/samples.ts";
import { type Address, addressPlus, type Family, parseAddress } from "../../../kernel/ip/address.ts";
import type { ForeignTable } from "../../../kernel/nftables/foreign/foreign_ruleset.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { add } from "../../lab/cni.ts";
import type { LabPod } from "../../lab/lab.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { FAMILIES, type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { requireKernel } from "../../support/privilege.ts";
import { serviceManifest } from "../../support/services/manifest.ts";

const POD_PORT = 8080;
const NODE_PORT = 30_080;
const OUTSIDE: Readonly<Record<Family, Address>> = {
  4: parseAddress("203.0.113.7"),
  6: parseAddress("2001:db8:ffff::7"),
};
const TUNNEL_NEED = "node to node by the tunnel";

/** A firewall of another program, and what must hold beside the results of real packets. */
interface Firewall {
  readonly name: string;
  /** The files in test/fixtures/firewalls/, each with the program that loads it. */
  readonly files: readonly (readonly [program: string, file: string])[];
  /** Needs that the firewall drops at least. */
  readonly loses: readonly string[];
  readonly isHarmless?: boolean;
}

const IPTABLES = "iptables-nft-restore";
const IP6TABLES = "ip6tables-nft-restore";
/** The programs of the module ip_tables, whose rules only they print. */
const LEGACY = "iptables-legacy-restore";
const LEGACY6 = "ip6tables-legacy-restore";
const FIREWALLS: readonly Firewall[] = [
  {
    name: "firewalld",
    files: [["nft", "firewalld.nft"]],
    loses: ["pod to pod IPv4 TCP", "pod to outside IPv6 UDP", "pod to node IPv4 UDP 53", `${TUNNEL_NEED} IPv4 UDP`],
  },
  {
    name: "ufw",
    files: [
      [IPTABLES, "ufw.iptables"],
      [IP6TABLES, "ufw.ip6tables"],
    ],
    loses: ["pod to pod IPv4 TCP", "pod to node IPv6 TCP 6443", `${TUNNEL_NEED} IPv4 UDP`],
  },
  { name: "Docker", files: [[IPTABLES, "docker.iptables"]], loses: ["pod to pod IPv4 UDP", "pod to outside IPv4 TCP"] },
  {
    name: "kube-proxy by iptables and by nftables",
    files: [
      [IPTABLES, "kube_proxy.iptables"],
      ["nft", "kube_proxy.nft"],
    ],
    loses: [],
    isHarmless: true,
  },
  { name: "leftover rules of Calico", files: [[IPTABLES, "calico.iptables"]], loses: [`${TUNNEL_NEED} IPv4 UDP`] },
  {
    name: "ufw by iptables-legacy",
    files: [
      [LEGACY, "ufw.iptables"],
      [LEGACY6, "ufw.ip6tables"],
    ],
    loses: ["pod to pod IPv4 TCP", "pod to node IPv6 TCP 6443", `${TUNNEL_NEED} IPv4 UDP`],
  },
  {
    name: "an administrator's nftables.conf",
    files: [["nft", "administrator.nft"]],
    loses: ["pod to pod IPv4 TCP", "node to pod IPv4 TCP", "pod to node IPv4 TCP 6443", "pod to outside IPv4 UDP"],
  },
];

describe("cli/node doctor and firewalls of other programs, with packets", function () {
  this.timeout(300_000);
  let on: RouteLab;
  let node: RoutedNode;
  let second: LabPod;

  before(async function () {
    requireKernel(this);
    on = new RouteLab("firewalls");
    [node] = on.nodes;
    on.router.exec("ip", ["link", "set", "lo", "up"]);
    on.router.exec("ip", ["address", "add", "203.0.113.7/32", "dev", "lo"]);
    on.router.exec("ip", ["address", "add", "2001:db8:ffff::7/128", "dev", "lo", "nodad"]);
    node.wired.node.exec("ip", ["-6", "route", "add", "default", "via", "2001:db8:2::254"]);
    await on.start();
    second = on.lab.pod("second");
    assert.equal(add(node.wired, second, node.policyd.overrides).exitCode, 0);
    const endpoints = FAMILIES.map((family) => ({ address: node.podAddresses[family], nodeName: node.name }));
    node.policyd.put("services.yaml", serviceManifest("web", ["10.96.3.3", "fd00:96::33"], endpoints, {}, NODE_PORT));
    for (const family of FAMILIES) {
      const pod = node.podAddresses[family];
      for (const protocol of ["tcp", "udp"] as const) {
        if (protocol === "udp") on.prober.listen(protocol, { namespace: node.pod, address: pod, port: POD_PORT });
        const other = addressPlus(pod, 1n) ?? pod;
        on.prober.listen(protocol, { namespace: second, address: other, port: POD_PORT });
        on.prober.listen(protocol, { namespace: node.wired.node, address: node.addresses[family], port: 53 });
        const port = protocol === "tcp" ? 443 : 53;
        on.prober.listen(protocol, { namespace: on.router, address: OUTSIDE[family], port });
      }
      on.prober.listen("tcp", { namespace: node.wired.node, address: node.addresses[family], port: 6443 });
    }
    await on.untilPodsReachPods();
    await on.untilReached(flows().map(({ flow }) => flow));
  });
  after(async () => {
    await on?.killAll();
    on?.[Symbol.dispose]();
  });

  /** Returns real flows, each with the doctor's names for it. */
  function flows(): readonly { readonly names: readonly string[]; readonly flow: Flow }[] {
    const [, near, far] = on.nodes;
    return FAMILIES.flatMap((family) => {
      const pod = node.podAddresses[family];
      const to = (address: Address, port: number) => ({ address, port });
      const named = (name: string, flow: Flow) => ({ names: [name], flow });
      const own = node.addresses[family];
      const ofBoth = (["tcp", "udp"] as const).flatMap((protocol) => {
        const kind = `IPv${family} ${protocol.toUpperCase()}`;
        const outside = to(OUTSIDE[family], protocol === "tcp" ? 443 : 53);
        const tunnelled = [`pod of another node to pod ${kind} by drawbridge.vx`, `${TUNNEL_NEED} IPv4 UDP`];
        return [
          named(`pod to pod ${kind}`, { protocol, from: second, to: to(pod, POD_PORT) }),
          named(`pod to outside ${kind}`, { protocol, from: node.pod, to: outside }),
          named(`outside to pod ${kind}`, {
            protocol,
            from: on.router,
            source: OUTSIDE[family],
            to: to(own, NODE_PORT),
          }),
          named(`pod of another node to pod ${kind} by uplink`, { protocol, from: near.pod, to: to(pod, POD_PORT) }),
          { names: tunnelled, flow: { protocol, from: far.pod, to: to(pod, POD_PORT) } },
          named(`node to pod ${kind}`, { protocol, from: node.wired.node, to: to(pod, POD_PORT) }),
          named(`pod to node ${kind} 53`, { protocol, from: node.pod, to: to(own, 53) }),
        ];
      });
      return [
        ...ofBoth,
        named(`pod to node IPv${family} TCP 6443`, { protocol: "tcp", from: node.pod, to: to(own, 6443) }),
      ];
    });
  }

  function facts(): NodeFacts {
    const { wired, policyd } = node;
    const flags = { nodeName: { value: "node1", where: "test" }, bridge: { value: "cni0", where: "test" } };
    const place = {
      configurationDirectory: `${on.lab.scratch}/net.d`,
      binaryDirectory: `${on.lab.scratch}/bin`,
      dataDirectory: wired.node.dataDir,
      stateDirectory: wired.node.runDir,
      socket: policyd.socketPath,
      bridge: "cni0",
      serverDirectory: `${on.lab.scratch}/plugin`,
      flowDirectory: `${on.lab.scratch}/flows`,
      networkNamespace: undefined,
    };
    const expected = { ...expectation(readConfiguration(undefined, flags)), trialTables: [] };
    return wired.node.inside(() => systemMachine(on.lab.calls).readFacts(place, expected));
  }

  function tablesOf({ foreignTables, legacyRules }: NodeFacts): readonly ForeignTable[] {
    return [...(seen(foreignTables) ?? []), ...(seen(legacyRules) ?? assert.fail("not read"))];
  }

  /** Empties the existing tables of ip_tables, because they cannot be deleted. */
  function flushLegacy(): void {
    for (const { family, name, chains } of seen(facts().legacyRules) ?? []) {
      const program = family === "ip6" ? "ip6tables-legacy" : "iptables-legacy";
      const table = ["-t", name];
      node.wired.node.exec(program, [...table, "-F"]);
      node.wired.node.exec(program, [...table, "-X"]);
      for (const chain of chains.values()) {
        if (chain.base?.policy === "drop") node.wired.node.exec(program, [...table, "-P", chain.name, "ACCEPT"]);
      }
    }
  }

  /** Returns the flows that the doctor reports as lost, by the names of {@link flows}. */
  function said(all: readonly LostFlows[], wantsDoubtful: boolean): ReadonlySet<string> {
    const ofKind = all.filter(({ verb }) => (verb === "may drop") === wantsDoubtful);
    return new Set(ofKind.flatMap((lost) => lost.flows.map(({ need, kind }) => `${need} ${kind}`)));
  }

  for (const { name, files, loses, isHarmless = false } of FIREWALLS) {
    it(`DOCTOR-13: for ${name} the doctor reports exactly the flows whose packets are lost`, async () => {
      const { node: namespace } = node.wired;
      const before = facts();
      assert.deepEqual(lostFlows(tablesOf(before), samplePackets(before)), []);
      for (const [program, file] of files) {
        const text = readFileSync(new URL(`../../fixtures/firewalls/${file}`, import.meta.url), "utf8");
        namespace.exec(program, program === "nft" ? ["-f", "-"] : [], text);
      }
      try {
        const after = facts();
        const all = lostFlows(tablesOf(after), samplePackets(after));
        const lost = said(all, false);
        const results = await on.prober.run(
          flows().map(({ flow }) => flow),
          { timeoutMilliseconds: 700 },
        );
        const real = flows().map(({ names, flow }, i) => ({ names, flow, reached: results[i]?.reached === true }));
        for (const { names, reached } of real) {
          assert.equal(
            !names.some((one) => lost.has(one)),
            reached,
            `${names[0]}; the doctor: ${[...lost].join("; ")}`,
          );
        }
        assert.deepEqual([...said(all, true)], [], "the doctor is sure of every flow");
        for (const one of loses) assert.ok(lost.has(one), `${one}: ${[...lost].join("; ")}`);
        const found = diagnose(after, CHECKS).findings.filter(({ check }) => check === "foreign-drops");
        assert.equal(found.length > 0, !isHarmless, JSON.stringify(found));
        assert.ok(
          found.every(({ severity }) => severity === "error"),
          JSON.stringify(found),
        );
      } finally {
        for (const { family, name: table } of seen(facts().foreignTables) ?? []) {
          namespace.exec("nft", ["delete", "table", family, table]);
        }
        flushLegacy();
      }
    });
  }

  it("DOCTOR-14: the doctor reports rules that it cannot evaluate with handle and reason, as information and not as errors", () => {
    const { node: namespace } = node.wired;
    const many = Array.from({ length: 20_001 }, (_, i) => `198.18.${i >> 8}.${i & 255}`).join(", ");
    namespace.exec(
      "nft",
      ["-f", "-"],
      `table inet vague {
        set many { type ipv4_addr; elements = { ${many} } }
        chain forward {
          type filter hook forward priority 7;
          tcp dport 8080 numgen random mod 2 0 drop
          ip saddr @many drop
          ip daddr 192.0.2.99 osf name "Linux" drop
          udp dport 8080 limit rate over 5/second log prefix "often " # it only notes
        }
      }\n`,
    );
    try {
      const found = diagnose(facts(), CHECKS).findings.filter(({ check }) => check === "foreign-drops");
      assert.deepEqual(
        found.map(({ severity }) => severity),
        ["info"],
      );
      const [{ what, why } = { what: "", why: "" }] = found;
      assert.match(what, /chain inet vague forward, hook forward, may drop what pods need: pod to pod \(IPv4 TCP, /);
      assert.match(
        why,
        /handle \d+ of chain forward \(numgen\); handle \d+ of chain forward \(set many has more than 20000/,
      );
      assert.doesNotMatch(why, /osf|limit/, "a rule that certainly does not match, or decides nothing, is not named");
    } finally {
      namespace.exec("nft", ["delete", "table", "inet", "vague"]);
    }
  });
});
