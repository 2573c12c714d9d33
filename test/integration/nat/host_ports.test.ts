import assert from "node:assert/strict";
import { type Address, familyOf, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { add, type Configuration } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PORT } from "../../support/host_ports/published.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { podResult } from "../../support/cni/add_result.ts";

const HOST_PORT = 7000;
const protocols = ["tcp", "udp", "sctp"] as const;
/** The timeout for flows that must not get through: longer than any answer on one machine takes. */
const SHORT = { timeoutMilliseconds: 400 };

/** Returns port mappings as containerd sends them. */
function published(hostPort: number): Configuration {
  const mappings = protocols.map((Protocol) => ({ HostPort: hostPort, ContainerPort: PORT, Protocol, HostIP: "" }));
  return { runtimeConfig: { portMappings: mappings } };
}

/** The modes: the plugin or the daemon keeps the rules, and bridged frames pass the IP hooks or do not. */
const modes = [
  { keeper: "", bridgeNetfilter: true },
  { keeper: " with policyd", bridgeNetfilter: false },
] as const;

for (const { keeper, bridgeNetfilter } of modes) {
  describe(`host ports${keeper}, br_netfilter ${bridgeNetfilter ? "on" : "off"}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let nodes: TwoNodes;
    let policyd: PolicydNode | undefined;
    let prober: Prober;
    let web: Attached;
    let other: Attached;
    let far: Attached;

    interface Attached {
      readonly pod: LabPod;
      readonly addresses: readonly Address[];
    }

    const attach = (name: string, on: WiredNode, overrides: Configuration = {}): Attached => {
      const pod = lab.pod(name);
      const { ips } = podResult(add(on, pod, { ...(on === nodes.node1 ? policyd?.overrides : {}), ...overrides }));
      const addresses = ips.map(({ address }) => parseCidr(address).address);
      for (const address of addresses) {
        for (const protocol of protocols) prober.listen(protocol, { namespace: pod, address, port: PORT });
      }
      return { pod, addresses };
    };

    before(async function () {
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      lab = suiteLab(this, `ports-${keeper === "" ? "" : "policyd-"}${bridgeNetfilter ? "on" : "off"}`);
      nodes = twoNodes(lab, { bridgeNetfilter });
      policyd = keeper === "" ? undefined : new PolicydNode(lab, nodes.node1);
      await policyd?.start();
      prober = new Prober(lab);
      web = attach("web", nodes.node1, {
        ...published(HOST_PORT),
        serviceCIDRs: ["10.96.0.0/12", "fd00:96::/112", "10.96.7.0/24"],
      });
      other = attach("other", nodes.node1);
      far = attach("far", nodes.node2);
    });

    it("host ports are rules of the daemon's tables where a daemon runs, and otherwise of the plugin's table", () => {
      const tables = nodes.node1.node.exec("nft", ["list", "tables"]).trim().split("\n");
      const expected =
        keeper === ""
          ? ["table inet drawbridge-cni"]
          : ["table bridge drawbridge", "table inet drawbridge", "table inet drawbridge-policy"];
      assert.deepEqual(tables.toSorted(), expected);
    });

    const flows = (
      from: LabNamespace,
      addresses: readonly Address[],
      port = HOST_PORT,
      names: readonly (typeof protocols)[number][] = protocols,
    ): readonly Flow[] =>
      addresses.flatMap((address) => names.map((protocol): Flow => ({ protocol, from, to: { address, port } })));

    const describeResult = ({ flow, seenBy, seenSource, why }: ProbeResult): string =>
      `${flow.protocol} ${flow.from.name} to ${formatAddress(flow.to.address)}: ` +
      (seenBy === undefined
        ? why
        : `seen by ${seenBy.name} from ${seenSource === undefined ? "" : formatAddress(seenSource)}`);

    /** Asserts that all flows get through to one namespace, and come from the address that is expected there. */
    const assertSeen = async (
      wanted: readonly Flow[],
      by: LabNamespace,
      source: (flow: Flow) => Address | undefined,
    ): Promise<void> => {
      assert.ok(wanted.length > 0);
      const results = await prober.run(wanted);
      const wrong = results.filter(
        ({ flow, reached, seenBy, seenSource }) => !reached || seenBy !== by || seenSource !== source(flow),
      );
      assert.deepEqual(wrong.map(describeResult), []);
    };

    const ofFamily =
      (addresses: readonly Address[]) =>
      ({ to }: Flow): Address | undefined =>
        addresses.find((address) => familyOf(address) === familyOf(to.address));

    it("POD-07 R1 R8: a client outside reaches a host port in both families, and the pod sees the client's own address", async () => {
      const { node1, router } = nodes;
      await assertSeen(flows(router, [...node1.addresses]), web.pod, ofFamily(node1.routerAddresses));
      await assertSeen(flows(far.pod, [...node1.addresses]), web.pod, ofFamily(far.addresses));
    });

    it("POD-07 R1: a pod of the same node reaches a host port at any address of the node, and is seen with its own address", async () => {
      const { node1 } = nodes;
      await assertSeen(flows(other.pod, [...node1.addresses, ...node1.gateways]), web.pod, ofFamily(other.addresses));
    });

    it("POD-07 R1: the pod reaches itself by its host port, and sees the gateway's address", async () => {
      const { node1 } = nodes;
      await assertSeen(flows(web.pod, [...node1.addresses]), web.pod, ofFamily(node1.gateways));
    });

    it("POD-07 R1: the node reaches a host port at its own address", async () => {
      const { node1 } = nodes;
      await assertSeen(flows(node1.node, [...node1.addresses]), web.pod, ofFamily(node1.addresses));
    });

    it("R9: localhost of the node leads to the pod at its host port, and to the node's own programs at any other port", async () => {
      const { node1 } = nodes;
      const loopback = [parseAddress("127.0.0.1"), parseAddress("::1")];
      const unpublished = HOST_PORT + 1;
      for (const port of [HOST_PORT, unpublished]) {
        for (const address of loopback) prober.listen("tcp", { namespace: node1.node, address, port });
      }
      await assertSeen(flows(node1.node, loopback), web.pod, ofFamily(node1.gateways));
      await assertSeen(flows(node1.node, loopback, unpublished, ["tcp"]), node1.node, ofFamily(loopback));
    });

    it("R4: CVE-2025-67499: traffic through the node to the number of a host port at another host or pod is not translated", async () => {
      const { node1, router } = nodes;
      for (const address of node1.routerAddresses) {
        for (const protocol of protocols) prober.listen(protocol, { namespace: router, address, port: HOST_PORT });
      }
      await assertSeen(flows(other.pod, node1.routerAddresses), router, ofFamily(other.addresses));
      for (const address of other.addresses) prober.listen("tcp", { namespace: other.pod, address, port: HOST_PORT });
      await assertSeen(flows(router, other.addresses, HOST_PORT, ["tcp"]), other.pod, ofFamily(node1.routerAddresses));
      await assertSeen(flows(far.pod, other.addresses, HOST_PORT, ["tcp"]), other.pod, ofFamily(far.addresses));
    });

    it("R5: a host port is published at the node's addresses, except Service addresses among them", async () => {
      const { node } = nodes.node1;
      const services = ["10.96.7.1", "fd00:96::7"].map((text) => parseAddress(text));
      // 10.96.0.0/12 ends at 10.111.255.255.
      const more = ["10.112.0.7", "fd00:97::7"].map((text) => parseAddress(text));
      for (const address of [...services, ...more]) {
        // Without "nodad" the kernel lets nobody bind an address of IPv6 for a moment, even on loopback.
        const options = familyOf(address) === 6 ? ["nodad"] : [];
        node.exec("ip", ["addr", "add", formatAddress(address), "dev", "lo", ...options]);
      }
      for (const address of services) {
        for (const protocol of protocols) prober.listen(protocol, { namespace: node, address, port: HOST_PORT });
      }
      await assertSeen(flows(other.pod, services), node, ofFamily(other.addresses));
      await assertSeen(flows(other.pod, more), web.pod, ofFamily(other.addresses));
    });

    it("R3: a host port with hostIP is published at that address only, and with 0.0.0.0 or :: at all addresses of the family", async () => {
      const { node1 } = nodes;
      const [address4, address6] = node1.addresses;
      const [gateway4, gateway6] = node1.gateways;
      const closed = { HostIP: formatAddress(address4), HostPort: 7104, ContainerPort: PORT + 1, Protocol: "TCP" };
      const cases: readonly (readonly [HostIP: string, reached: readonly Address[], not: readonly Address[]])[] = [
        [formatAddress(address4), [address4], [gateway4, address6]],
        [formatAddress(address6), [address6], [gateway6, address4]],
        ["0.0.0.0", [address4, gateway4], [address6]],
        ["::", [address6, gateway6], [address4]],
        // The mapping of all addresses has another one beside it, which goes first, of an address where nothing answers.
        ["", [gateway4, address6], [address4]],
      ];
      for (const [index, [HostIP, reached, not]] of cases.entries()) {
        const port = 7100 + index;
        const mapping = { HostIP, HostPort: port, ContainerPort: PORT, Protocol: "TCP" };
        const portMappings = HostIP === "" ? [mapping, closed, mapping] : [mapping];
        const { pod } = attach(`ip${index}`, node1, { runtimeConfig: { portMappings } });
        await assertSeen(flows(other.pod, reached, port, ["tcp"]), pod, ofFamily(other.addresses));
        const results = await prober.run(flows(other.pod, not, port, ["tcp"]), SHORT);
        assert.deepEqual(
          results.map(({ seenBy }) => seenBy),
          not.map(() => undefined),
        );
      }
    });
  });
}
