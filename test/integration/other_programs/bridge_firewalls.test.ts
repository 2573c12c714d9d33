import assert from "node:assert/strict";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import { CHECKS } from "../../../cli/node/doctor/checks.ts";
import { diagnose, seen } from "../../../cli/node/doctor/diagnose.ts";
import { expectation } from "../../../cli/node/doctor/expectation.ts";
import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import { lostFlows } from "../../../cli/node/doctor/flows/lost_flows.ts";
import { samplePackets } from "../../../cli/node/doctor/flows/samples.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { addressesOf } from "../../support/host_ports/localhost_node.ts";
import { requireKernel } from "../../support/privilege.ts";

const PORT = 8080;
const EVERY = ["IPv4 TCP", "IPv4 UDP", "IPv6 TCP", "IPv6 UDP"];

/** Rules of the bridge family, and the flows from pod to pod whose real packets they drop. */
const FIREWALLS: readonly {
  readonly name: string;
  readonly load: readonly (readonly [program: string, args: readonly string[], input?: string])[];
  readonly loses: readonly string[];
}[] = [
  {
    name: "a drop of UDP from pods' ports",
    load: [
      [
        "nft",
        ["-f", "-"],
        `table bridge admin { chain in { type filter hook prerouting priority 0; iifname "dbv*" ether type ip ip protocol udp drop; }; }\n`,
      ],
    ],
    loses: ["IPv4 UDP"],
  },
  {
    name: "a policy that drops all packets to pods except IPv6",
    load: [
      [
        "nft",
        ["-f", "-"],
        `table bridge admin { chain out { type filter hook output priority 0; policy drop; ether type ip6 accept; }; }\n`,
      ],
    ],
    loses: ["IPv4 TCP", "IPv4 UDP"],
  },
  {
    name: "ebtables that drop IPv4 on its way to the node",
    load: [["ebtables-nft", ["-A", "INPUT", "-p", "IPv4", "-j", "DROP"]]],
    loses: ["IPv4 TCP", "IPv4 UDP"],
  },
  {
    name: "ebtables that drop every frame that bridges forward",
    load: [["ebtables-nft", ["-P", "FORWARD", "DROP"]]],
    loses: [],
  },
  {
    name: "rules about ports of others",
    load: [
      [
        "nft",
        ["-f", "-"],
        `table bridge admin { chain in { type filter hook input priority 0; iifname "vnet*" drop; }; }\n`,
      ],
    ],
    loses: [],
  },
];

describe("cli/node doctor and rules of the bridge family, with packets", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let prober: Prober;
  let pods: readonly LabPod[] = [];

  before(function () {
    requireKernel(this);
    lab = createLab("bridge-firewalls");
    ({ node1: wired } = twoNodes(lab));
    prober = new Prober(lab.calls);
    pods = ["a", "b"].map((name) => {
      const pod = lab.pod(name);
      // Packets that go around the bridge pass no hook of it.
      assert.equal(add(wired, pod, { bypassBridge: false }).error, undefined);
      return pod;
    });
    const [, to] = pods;
    assert.ok(to !== undefined);
    for (const address of addressesOf(to)) {
      for (const protocol of ["tcp", "udp"] as const) prober.listen(protocol, { namespace: to, address, port: PORT });
    }
  });
  after(() => {
    prober?.close();
    lab?.destroy();
  });

  function facts(): NodeFacts {
    const flags = { nodeName: { value: "node1", where: "test" }, bridge: { value: "cni0", where: "test" } };
    const place = {
      configurationDirectory: `${lab.scratch}/net.d`,
      binaryDirectory: `${lab.scratch}/bin`,
      dataDirectory: wired.node.dataDir,
      stateDirectory: wired.node.runDir,
      socket: `${lab.scratch}/policyd.sock`,
      bridge: "cni0",
      serverDirectory: `${lab.scratch}/plugin`,
      flowDirectory: `${lab.scratch}/flows`,
      networkNamespace: undefined,
    };
    const expected = { ...expectation(readConfiguration(undefined, flags)), trialTables: [] };
    return wired.node.inside(() => systemMachine(lab.calls).readFacts(place, expected));
  }

  /** Returns the kinds of flows from pod to pod that are lost. */
  async function lost(): Promise<readonly string[]> {
    const [from, to] = pods;
    assert.ok(from !== undefined && to !== undefined);
    const flows = addressesOf(to).flatMap((address) =>
      (["tcp", "udp"] as const).map((protocol) => ({ protocol, from, to: { address, port: PORT } })),
    );
    const results = await prober.run(flows, { timeoutMilliseconds: 700 });
    return flows.flatMap(({ protocol, to: { address } }, i) => {
      const kind = `${typeof address === "number" ? "IPv4" : "IPv6"} ${protocol.toUpperCase()}`;
      return results[i]?.reached === true ? [] : [kind];
    });
  }

  for (const { name, load, loses } of FIREWALLS) {
    it(`DOCTOR-16: for ${name} the doctor warns of exactly the flows whose packets are lost`, async () => {
      assert.deepEqual(await lost(), []);
      for (const [program, args, input] of load) wired.node.exec(program, args, input);
      try {
        assert.deepEqual([...(await lost())].toSorted(), loses);
        const seenFacts = facts();
        const said = lostFlows(seen(seenFacts.foreignTables) ?? [], samplePackets(seenFacts));
        const kinds = new Set(
          said.flatMap(({ verb, flows }) =>
            flows.flatMap(({ need, kind }) => (need === "pod to pod" && verb !== "may drop" ? [kind] : [])),
          ),
        );
        assert.deepEqual(
          EVERY.filter((kind) => kinds.has(kind)),
          loses,
        );
        const found = diagnose(seenFacts, CHECKS).findings.filter(({ check }) => check === "foreign-drops");
        assert.deepEqual(
          found.map(({ severity }) => severity),
          loses.length === 0 ? [] : found.map(() => "warning"),
        );
        assert.equal(found.length > 0, loses.length > 0);
      } finally {
        for (const { family, name: table } of seen(facts().foreignTables) ?? []) {
          wired.node.exec("nft", ["delete", "table", family, table]);
        }
      }
    });
  }

  it("DOCTOR-16: flows that an ebtables rule may drop are only information when the doctor cannot evaluate the rule's match", async () => {
    wired.node.exec("ebtables-nft", ["-A", "INPUT", "-p", "IPv4", "--ip-proto", "6", "-j", "DROP"]);
    try {
      assert.deepEqual(await lost(), ["IPv4 TCP"]);
      const [found, ...more] = diagnose(facts(), CHECKS).findings.filter(({ check }) => check === "foreign-drops");
      assert.deepEqual(more, []);
      assert.equal(found?.severity, "info");
      assert.match(found.what, /chain bridge filter INPUT, hook input, may drop what pods need: pod to pod \(IPv4 TCP/);
      assert.match(found.why ?? "", /match ip/);
    } finally {
      wired.node.exec("nft", ["delete", "table", "bridge", "filter"]);
    }
  });
});
