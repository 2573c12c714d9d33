import { FAMILIES } from "../../../kernel/ip/address.ts";
import { counted } from "../../../cli/output/text.ts";
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { Finding } from "../../../policyd/problems/diagnose.ts";
import { traceTables } from "../../../cli/node/doctor/probe/trace_table.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import type { Configuration } from "../../lab/cni.ts";
import { type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { type ProbeRun, startProbe } from "../../support/node/probe_run.ts";
import { requireKernel } from "../../support/privilege.ts";
import { serviceManifest } from "../../support/services/manifest.ts";

type Load = readonly [program: string, args: readonly string[], input?: string];

/** Something that loses packets, and the findings of the probe, each by all that it must say. */
interface Obstacle {
  readonly id: string;
  readonly name: string;
  readonly load: readonly Load[];
  readonly unload?: readonly Load[];
  readonly finds: readonly (readonly RegExp[])[];
  readonly overrides?: Configuration;
  /** Whether the default doctor names chains of the obstacle, as information. */
  readonly isNamed?: boolean;
}

const fixture = (program: string, file: string): Load => [
  program,
  program === "nft" ? ["-f", "-"] : [],
  readFileSync(new URL(`../../fixtures/firewalls/${file}`, import.meta.url), "utf8"),
];
const nft = (text: string): Load => ["nft", ["-f", "-"], `${text}\n`];
const ip = (words: string): Load => ["ip", words.split(" ")];
/** Tables of ip_tables cannot be deleted, only emptied. */
const flushLegacy = ["iptables-legacy", "ip6tables-legacy"].flatMap((program): readonly Load[] => [
  [program, ["-P", "FORWARD", "ACCEPT"]],
  [program, ["-P", "INPUT", "ACCEPT"]],
  [program, ["-F"]],
  [program, ["-X"]],
]);

const OBSTACLES: readonly Obstacle[] = [
  {
    id: "DOCTOR-13",
    name: "firewalld",
    load: [fixture("nft", "firewalld.nft")],
    finds: [
      [
        /chain inet firewalld filter_FWD_public, hook forward, .*\(firewalld\): pod to pod \(IPv4 TCP, IPv4 UDP, IPv6 TCP, IPv6 UDP\); pod to another node \(.*; pod to outside \(IPv4 TCP, /,
        /firewall-cmd .*--add-interface=cni0/,
      ],
      [/chain inet firewalld filter_IN_public, hook input, .*: pod to node \(IPv4 UDP 53, .*IPv6 TCP 6443\)/],
    ],
  },
  {
    id: "DOCTOR-13",
    name: "ufw by iptables-nft",
    load: [fixture("iptables-nft-restore", "ufw.iptables"), fixture("ip6tables-nft-restore", "ufw.ip6tables")],
    finds: [
      [/chain ip filter FORWARD, hook forward, .*\(ufw\): pod to pod \(IPv4 TCP, /, /ufw route allow in on cni0/],
      [/chain ip filter INPUT, hook input, .*: pod to node \(IPv4 /],
      [/chain ip6 filter FORWARD, hook forward, .*: pod to pod \(IPv6 TCP, .*pod to a Service \(IPv6 TCP 80\)/],
      [/chain ip6 filter INPUT, hook input, .*: pod to node \(IPv6 /],
    ],
  },
  {
    id: "DOCTOR-13",
    name: "Docker",
    load: [fixture("iptables-nft-restore", "docker.iptables")],
    finds: [
      [
        /chain ip filter FORWARD, hook forward, .*\(Docker\): pod to pod \(IPv4 TCP/,
        /DOCKER-USER -i cni0/,
        /policy of FORWARD/,
      ],
    ],
  },
  {
    id: "DOCTOR-13",
    name: "kube-proxy by iptables and by nftables",
    load: [fixture("iptables-nft-restore", "kube_proxy.iptables"), fixture("nft", "kube_proxy.nft")],
    finds: [],
  },
  {
    id: "DOCTOR-13",
    name: "leftover rules of Calico",
    load: [fixture("iptables-nft-restore", "calico.iptables")],
    finds: [
      [
        /chain ip filter cali-INPUT, hook input, .*\(Calico\): pod to another node \(the tunnel of IPv4 TCP to 10\.244\.3\.1/,
        /handle \d+ of chain cali-INPUT/,
      ],
    ],
  },
  {
    id: "DOCTOR-13",
    name: "an administrator's nftables.conf, which also rejects as a closed port does",
    load: [fixture("nft", "administrator.nft")],
    finds: [
      [/chain inet filter forward, hook forward, .*: pod to pod \(IPv4 TCP, .*pod to outside \(IPv4 UDP, IPv6 UDP\)/],
      [/chain inet filter input, hook input, .*: pod to node \(IPv4 TCP 53, IPv4 TCP 6443, /],
      [/chain inet filter output, hook output, .*: node to pod \(IPv4 TCP\)/, /handle \d+ of chain output/],
    ],
  },
  {
    id: "DOCTOR-13",
    name: "a rule that drops answers only",
    load: [
      nft(
        "table ip late { chain f { type filter hook forward priority 5; ct direction reply ip saddr 10.244.1.0/24 drop; }; }",
      ),
    ],
    finds: [[/chain ip late f, hook forward, .*: pod to pod \(answers of IPv4 TCP\)/]],
  },
  {
    id: "DOCTOR-13",
    name: "ebtables that drop IPv4 on its way to the node",
    load: [["ebtables-nft", ["-A", "INPUT", "-p", "IPv4", "-j", "DROP"]]],
    overrides: { bypassBridge: false },
    finds: [
      [
        /chain bridge filter INPUT, hook input, .*\(ebtables-nft\): pod to pod \(IPv4 TCP, IPv4 UDP\); node to pod \(answers of IPv4 TCP\)/,
      ],
    ],
  },
  {
    id: "DOCTOR-14",
    name: "the reverse path filter",
    load: [
      ip("link add other0 type veth peer name other1"),
      ip("link set other0 up"),
      ip("route add 10.244.2.1 dev other0"),
      ip("route add 10.244.2.1 via 192.0.2.2 dev uplink table 200"),
      ip("rule add fwmark 1 lookup 200 pref 90"),
      nft(
        "table ip way { chain p { type filter hook prerouting priority -150; ip daddr 10.244.2.1 meta mark set 1; }; }",
      ),
    ],
    unload: [ip("rule del pref 90"), ip("route flush table 200"), ip("link del other0")],
    finds: [
      [
        /lost after hook prerouting of inet: pod to another node \(answers of IPv4 TCP to 10\.244\.2\.1\)/,
        /TcpExt IPReversePathFilter/,
        /rp_filter=2/,
      ],
    ],
    isNamed: false,
  },
  {
    id: "DOCTOR-14",
    name: "a missing route",
    load: [ip("route add throw 10.244.2.0/25"), ip("route add unreachable default metric 4000000000")],
    unload: [ip("route del throw 10.244.2.0/25"), ip("route del unreachable default metric 4000000000")],
    finds: [
      [/lost after hook prerouting of inet: pod to another node \(IPv4 TCP to 10\.244\.2\.1, /, /IpExt InNoRoutes/],
    ],
    isNamed: false,
  },
  {
    id: "DOCTOR-14",
    name: "an uplink whose MTU is too small",
    load: [ip("link set uplink mtu 1400")],
    unload: [ip("link set uplink mtu 1500")],
    finds: [
      [
        /lost after hook prerouting of inet: pod to another node \(IPv4 UDP to .*, IPv4 UDP to 10\.244\.2\.1\)/,
        /larger than the MTU \(Ip FragFails\)/,
        /the check mtu/,
      ],
      [
        /lost after hook prerouting of inet: pod to another node \(IPv6 UDP to /,
        /larger than the MTU \(Ip6FragFails\)/,
      ],
    ],
    isNamed: false,
  },
];

/** Comes last, because the tables of iptables-legacy stay, and the doctor names them from then on. */
const LEGACY: Obstacle = {
  id: "DOCTOR-13",
  name: "ufw by iptables-legacy",
  load: [fixture("iptables-legacy-restore", "ufw.iptables"), fixture("ip6tables-legacy-restore", "ufw.ip6tables")],
  unload: flushLegacy,
  finds: [
    [
      /iptables-legacy loses packets in hook forward, table ip filter: pod to pod \(IPv4 TCP, /,
      /nobody sees inside/,
      / iptables-legacy -t filter/,
    ],
    [/iptables-legacy loses packets in hook input, table ip filter: pod to node \(IPv4 /],
    [
      /iptables-legacy loses packets in hook forward, table ip6 filter: pod to pod \(IPv6 TCP, /,
      / ip6tables-legacy -t filter/,
    ],
    [/iptables-legacy loses packets in hook input, table ip6 filter: pod to node \(IPv6 /],
  ],
};

describe("cli/node doctor --probe and what loses pods' packets", function () {
  this.timeout(300_000);
  let on: RouteLab;
  let node: RoutedNode;

  before(async function () {
    requireKernel(this);
    on = new RouteLab("firewalls");
    [node] = on.nodes;
    node.wired.node.exec("ip", ["-6", "route", "add", "default", "via", "2001:db8:2::254"]);
    await on.start();
    const endpoints = FAMILIES.map((family) => ({ address: node.podAddresses[family], nodeName: node.name }));
    node.policyd.put("services.yaml", serviceManifest("web", ["10.96.3.3", "fd00:96::33"], endpoints, {}));
    for (const family of FAMILIES) {
      const at = { namespace: node.wired.node, address: node.addresses[family] };
      for (const protocol of ["tcp", "udp"] as const) on.prober.listen(protocol, { ...at, port: 53 });
      on.prober.listen("tcp", { ...at, port: 6443 });
    }
    await on.untilPodsReachPods();
  });
  after(() => on?.[Symbol.dispose]());

  function start(overrides: Configuration = {}, launcher: readonly string[] = []): ProbeRun {
    const { wired, policyd } = node;
    return startProbe(on.lab, wired, { ...policyd.overrides, ...overrides }, policyd.socketPath, launcher);
  }

  function run(all: readonly Load[]): void {
    for (const [program, args, input] of all) node.wired.node.exec(program, args, input);
  }

  /** Deletes all tables that are not of the daemon. */
  function deleteTables(): void {
    for (const line of node.wired.node.exec("nft", ["list", "tables"]).split("\n")) {
      if (line !== "" && !line.includes("drawbridge")) node.wired.node.exec("nft", ["delete", ...line.split(" ")]);
    }
  }

  /** Returns what is left of a probe: tables, records, addresses and links. */
  function left(): readonly string[] {
    const { node: namespace } = node.wired;
    const tables = namespace.exec("nft", ["list", "tables"]).split("\n");
    const files = [namespace.runDir, namespace.dataDir].flatMap((directory) =>
      readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()),
    );
    const texts = files.map((entry) => `${entry.name} ${readFileSync(`${entry.parentPath}/${entry.name}`, "latin1")}`);
    const links = namespace.links().filter(({ name }) => name.startsWith("dbv"));
    return [
      ...[...tables, ...texts].filter((text) => text.includes("drawbridge-probe")),
      ...links.slice(1).map(({ name }) => name),
    ];
  }

  function words({ what, why, way }: Finding): string {
    return `${what}\n${why}\n${way}`;
  }

  function probes({ id, name, load, unload = [], finds, overrides, isNamed = true }: Obstacle): void {
    it(`${id}: with ${name} the probe finds ${counted(finds.length, "place")} where packets are lost, and leaves nothing`, async () => {
      run(load);
      try {
        const { code, findings, unseen, errors } = await start(overrides).outcome;
        assert.deepEqual(unseen, [], errors);
        const found = findings.filter(({ check }) => check === "probe");
        const all = found.map(words);
        for (const patterns of finds) {
          assert.ok(
            all.some((text) => patterns.every((pattern) => pattern.test(text))),
            `${patterns.join(" ")}:\n${all.join("\n")}`,
          );
        }
        assert.equal(found.length, finds.length, all.join("\n"));
        assert.ok(found.every(({ severity }) => severity === (name.includes("MTU") ? "warning" : "error")));
        assert.equal(code, finds.length === 0 ? 0 : 1, errors);
        const named = findings.filter(({ check }) => check === "foreign-drops");
        assert.equal(named.length > 0, isNamed);
        const drops = /^chain \S+ filter FORWARD drops what pods send through the node/;
        assert.ok(named.every(({ severity, what }) => severity === (drops.test(what) ? "error" : "info")));
        assert.deepEqual(left(), []);
      } finally {
        run(unload);
        deleteTables();
      }
    });
  }

  for (const obstacle of OBSTACLES) probes(obstacle);

  it("DOCTOR-13: without any obstacle the probe finds nothing, and leaves nothing", async () => {
    const { code, findings, unseen, errors } = await start().outcome;
    assert.deepEqual({ code, findings, unseen }, { code: 0, findings: [], unseen: [] }, errors);
    assert.deepEqual(left(), []);
  });

  for (const signal of ["SIGINT", "SIGTERM", "SIGKILL"] as const) {
    it(`DOCTOR-17: after ${signal} the tables of the probe are gone, and ${signal === "SIGKILL" ? "the next probe removes its pods" : "its pods, too"}`, async () => {
      const { child, outcome } = start();
      for (let tries = 1000; !left().some((text) => text.startsWith("dbv")); tries--) {
        assert.ok(tries > 0 && child.exitCode === null, "the probe has attached a pod");
        await pause(100);
      }
      assert.ok(left().includes("table inet drawbridge-probe"));
      child.kill(signal);
      assert.equal((await outcome).signal, signal);
      if (signal === "SIGKILL") {
        assert.ok(left().every((text) => !text.startsWith("table ")));
        assert.notDeepEqual(left(), []);
        const next = await start().outcome;
        assert.deepEqual({ code: next.code, findings: next.findings }, { code: 0, findings: [] }, next.errors);
      }
      assert.deepEqual(left(), []);
    });
  }

  it("DOCTOR-17: while another probe has its tables, a probe attaches no pod and says so, with exit code 3", async () => {
    const other = node.wired.node.inside(() => new NftablesSocket(on.lab.calls));
    const [table] = traceTables({ first: 1, last: 2 });
    assert.ok(table !== undefined);
    other.commit([{ kind: "add table", table }]);
    const { code, unseen } = await start().outcome;
    assert.deepEqual(left(), ["table inet drawbridge-probe"]);
    other.close();
    assert.equal(code, 3);
    assert.match(unseen.find(({ check }) => check === "probe")?.reason ?? "", /another process owns the table/);
    assert.deepEqual(left(), []);
  });

  it("DOCTOR-17: in a container, which has processes of its own, a probe attaches no pod and says so, with exit code 3", async () => {
    const { code, unseen } = await start({}, ["unshare", "--pid", "--fork", "--mount-proc"]).outcome;
    assert.equal(code, 3);
    assert.match(unseen.find(({ check }) => check === "probe")?.reason ?? "", /does not have the node's processes/);
    assert.deepEqual(left(), []);
  });

  it("DOCTOR-17: a pod that the plugin cannot attach is a finding with the plugin's error", async () => {
    const { code, findings } = await start({
      ipam: { type: "host-local", dataDir: node.wired.node.dataDir, ranges: [] },
    }).outcome;
    assert.equal(code, 1);
    assert.match(
      findings.map(words).join("\n"),
      /a probe pod cannot be attached: .*drawbridge ADD drawbridge-probe-1: .*ipam/,
    );
    assert.deepEqual(left(), []);
  });

  probes(LEGACY);
});
