import assert from "node:assert/strict";
import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { changeLink } from "../../../kernel/route/link.ts";
import { deleteRoute, newRoute } from "../../../kernel/route/route.ts";
import { requireKernel } from "../../support/privilege.ts";
import { createLab, type Lab } from "../lab.ts";
import { routeTo, type TwoNodes, twoNodes } from "../topology.ts";
import { type Flow, Prober, type ProbeResult } from "./prober.ts";
import { PROTOCOLS } from "./protocol.ts";

const PORT = 8080;

describe("traffic probes", () => {
  let lab: Lab;
  let nodes: TwoNodes;

  before(function () {
    requireKernel(this);
    lab = createLab("probes");
    nodes = twoNodes(lab);
  });

  afterEach(() => void nodes.router.exec("nft", ["flush", "ruleset"]));

  after(() => lab?.destroy());

  /** One flow per family and protocol from node1 to node2, with responders there. */
  async function probeAll(listening = true): Promise<readonly ProbeResult[]> {
    using prober = new Prober(lab.calls);
    const flows: Flow[] = [];
    for (const address of nodes.node2.addresses) {
      for (const protocol of PROTOCOLS) {
        if (listening) prober.listen(protocol, { namespace: nodes.node2.node, address, port: PORT });
        flows.push({ protocol, from: nodes.node1.node, to: { address, port: PORT } });
      }
    }
    return await prober.run(flows, { timeoutMilliseconds: 400 });
  }

  const named = (results: readonly ProbeResult[], isWanted: (result: ProbeResult) => boolean): readonly string[] =>
    results.filter(isWanted).map(({ flow }) => `${flow.protocol}${familyOf(flow.to.address)}`);

  const all = ["tcp4", "udp4", "icmp4", "sctp4", "tcp6", "udp6", "icmp6", "sctp6"];
  const reached = (results: readonly ProbeResult[]): readonly string[] => named(results, (result) => result.reached);

  it("come back where there is a way, and tell the source address the target saw", async () => {
    const results = await probeAll();
    assert.deepEqual(reached(results), all);
    for (const { flow, seenSource, seenBy, why, milliseconds } of results) {
      const own: Address = nodes.node1.addresses[familyOf(flow.to.address) === 4 ? 0 : 1];
      assert.equal(seenSource, own, flow.protocol);
      assert.equal(seenBy?.name, "node2");
      assert.equal(why, "");
      assert.ok(milliseconds > 0 && milliseconds < 400);
    }
  });

  it("see the translated address where there is NAT", async () => {
    nodes.router.exec(
      "nft",
      ["-f", "-"],
      "table inet lab { chain post { type nat hook postrouting priority srcnat; oifname to-node2 masquerade; }; }",
    );
    const results = await probeAll();
    assert.deepEqual(reached(results), all);
    for (const { flow, seenSource } of results) {
      assert.equal(seenSource, nodes.node2.routerAddresses[familyOf(flow.to.address) === 4 ? 0 : 1], flow.protocol);
    }
  });

  it("fail where nobody listens, but for ICMP, which the kernel answers", async () => {
    const results = await probeAll(false);
    assert.deepEqual(reached(results), ["icmp4", "icmp6"]);
    const tcp = results.find(({ flow }) => flow.protocol === "tcp");
    assert.equal(tcp?.why, "connection refused");
  });

  it("fail in the family whose route is gone, and say so", async () => {
    const { node, routerAddresses } = nodes.node1;
    const route = routeTo(undefined, routerAddresses[0]);
    node.route.request(deleteRoute(route));
    const results = await probeAll();
    node.route.request(newRoute(route));
    assert.deepEqual(reached(results), ["tcp6", "udp6", "icmp6", "sctp6"]);
    for (const { why } of results.filter((result) => !result.reached)) assert.equal(why, "network is unreachable");
  });

  it("fail when the answers alone are lost, though the target saw them", async () => {
    nodes.router.exec(
      "nft",
      ["-f", "-"],
      "table inet lab { chain forward { type filter hook forward priority 0; iifname to-node2 udp sport 8080 drop; }; }",
    );
    const results = await probeAll();
    assert.deepEqual(
      named(results, (result) => !result.reached),
      ["udp4", "udp6"],
    );
    for (const { flow, seenSource, why } of results.filter((result) => !result.reached)) {
      assert.notEqual(seenSource, undefined, formatAddress(flow.to.address));
      assert.equal(why, "no answer within 400 ms");
    }
  });

  for (const [protocol, rule] of [
    ["tcp", "tcp dport 8080"],
    ["udp", "udp dport 8080"],
    ["icmp", "icmp type echo-request drop; icmpv6 type echo-request"],
    ["sctp", "sctp dport 8080"],
  ] as const) {
    it(`tell ${protocol} from the others`, async () => {
      const chain = `chain forward { type filter hook forward priority 0; ${rule} drop; }`;
      nodes.router.exec("nft", ["-f", "-"], `table inet lab { ${chain}; }`);
      assert.deepEqual(
        named(await probeAll(), (result) => !result.reached),
        [`${protocol}4`, `${protocol}6`],
      );
    });
  }

  it("measure hundreds of flows at once", async () => {
    using prober = new Prober(lab.calls);
    const [address] = nodes.node2.addresses;
    prober.listen("udp", { namespace: nodes.node2.node, address, port: PORT });
    const flows = Array.from({ length: 500 }, () => ({
      protocol: "udp" as const,
      from: nodes.node1.node,
      to: { address, port: PORT },
    }));
    const results = await prober.run(flows);
    assert.equal(results.filter((result) => result.reached).length, 500);
  });

  it("all fail when the link is down", async () => {
    nodes.router.route.request(changeLink({ name: "to-node2" }, { up: false }));
    assert.deepEqual(reached(await probeAll()), []);
  });
});
