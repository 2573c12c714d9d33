import assert from "node:assert/strict";
import { type Address, familyOf, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { ProbeResult, Flow } from "../../lab/probe/prober.ts";
import { addressesOf, LOCALHOST_WAYS, LocalhostNode } from "../../support/host_ports/localhost_node.ts";
import { addressesIn } from "../../support/host_ports/masquerade.ts";
import { mapping, PORT, published } from "../../support/host_ports/published.ts";
import { UdpClient } from "../../support/host_ports/udp_client.ts";
import { normalListing, withoutPortShares } from "../../support/nftables/listing.ts";
import { podObject } from "../../support/policy/first_packet/coming_pod.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { listOf } from "../../support/services/manifest.ts";

const localhost4 = parseAddress("127.0.0.1");
const second4 = parseAddress("127.0.0.2");
const third4 = parseAddress("127.9.8.7");
const localhost6 = parseAddress("::1");
/** The timeout for flows that must not get through: longer than any answer on one machine takes. */
const SHORT = { timeoutMilliseconds: 400 };

const textOf = ({ flow: { protocol, to, source }, reached, seenBy, seenSource, why }: ProbeResult): string => {
  const way = `${protocol} ${source === undefined ? "" : formatAddress(source)} to ${formatAddress(to.address)}`;
  if (!reached) return `${way}: ${seenBy?.name ?? "nobody"}, ${why}`;
  return `${way}: ${seenBy?.name ?? "nobody"} sees ${seenSource === undefined ? "" : formatAddress(seenSource)}`;
};

const own = (addresses: readonly Address[], to: Address): Address =>
  addresses.find((address) => familyOf(address) === familyOf(to)) ?? assert.fail("no address of that family");

for (const { hasDaemon, keeper, ...way } of LOCALHOST_WAYS) {
  describe(`host ports on localhost ${keeper}, ${way.title}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let on: LocalhostNode;
    let attacker: LabPod;

    before(async function () {
      if (way.bridgeNetfilter) requireBridgeNetfilter(this);
      lab = suiteLab(this, `localhost-${hasDaemon ? "policyd" : "plugin"}-${way.short}`);
      on = new LocalhostNode(lab, way, hasDaemon);
      await on.start();
      attacker = lab.pod("attacker");
      addressesIn(on.attach(attacker));
    });

    it("R9: a pod with a loopback address as hostIP is reached there from every source of the node, and sees the node's address", async () => {
      for (const [index, hostIp] of [localhost4, second4, third4, localhost6].entries()) {
        const port = on.newPort();
        const all = (["tcp", "udp", "sctp"] as const).map((protocol) => mapping(port, protocol, formatAddress(hostIp)));
        const pod = on.serve(`loop${index}`, ...all);
        const isIpv4 = familyOf(hostIp) === 4;
        const loopbacks = isIpv4 ? [undefined, localhost4, third4] : [undefined, localhost6];
        const [address, gateway] = [own(on.wired.addresses, hostIp), own(on.wired.gateways, hostIp)];
        const flows = (["tcp", "udp", "sctp"] as const).flatMap((protocol) =>
          [...loopbacks, address, gateway].map((source) => on.flow(protocol, hostIp, port, source)),
        );
        const results = await on.prober.run(flows);
        const expected = flows.map(
          ({ protocol, source }) =>
            `${protocol} ${source === undefined ? "" : formatAddress(source)} to ${formatAddress(hostIp)}: ` +
            `${pod.name} sees ${formatAddress(source === address ? address : gateway)}`,
        );
        assert.deepEqual(results.map(textOf), expected);
        const elsewhere = [address, gateway, isIpv4 ? parseAddress("127.0.0.9") : gateway];
        const missed = await on.prober.run(
          elsewhere.map((to) => on.flow("tcp", to, port)),
          SHORT,
        );
        assert.deepEqual(
          missed.map(({ seenBy }) => seenBy?.name),
          elsewhere.map(() => undefined),
        );
        on.detach(pod);
      }
    });

    it("R9: a connection to a loopback address lasts for many exchanges, and one to a closed port of the pod is refused", async () => {
      const port = on.newPort();
      const closed = { ...mapping(port, "tcp", "127.0.0.1"), hostPort: port + 1000, containerPort: 9 };
      const closed6 = { ...closed, hostIP: "::1" };
      const pod = on.serve("long", mapping(port, "tcp", "127.0.0.1"), mapping(port, "tcp", "::1"), closed, closed6, {
        ...closed,
        protocol: "udp",
      });
      const long = [localhost4, localhost6].map((to): Flow => ({ ...on.flow("tcp", to, port), exchanges: 500 }));
      assert.deepEqual(
        (await on.prober.run(long, { timeoutMilliseconds: 10_000 })).map(({ reached, seenBy }) => [
          reached,
          seenBy?.name,
        ]),
        [
          [true, pod.name],
          [true, pod.name],
        ],
      );
      const refused = [
        on.flow("tcp", localhost4, port + 1000),
        on.flow("tcp", localhost6, port + 1000),
        on.flow("udp", localhost4, port + 1000),
      ];
      for (const { why } of await on.prober.run(refused)) assert.match(why, /ECONNREFUSED|refused/i);
      on.detach(pod);
    });

    it("R9: a host port without hostIP, or with 0.0.0.0 or ::, is on localhost too, and one with the node's address is not", async () => {
      const loopbacks = [localhost4, third4, localhost6];
      const cases: readonly (readonly [hostIp: string | undefined, reached: readonly Address[]])[] = [
        [undefined, loopbacks],
        ["0.0.0.0", [localhost4, third4]],
        ["::", [localhost6]],
        [formatAddress(on.wired.addresses[0]), []],
        [formatAddress(on.wired.addresses[1]), []],
      ];
      for (const [index, [hostIp, reached]] of cases.entries()) {
        const port = on.newPort();
        const pod = on.serve(`all${index}`, mapping(port, "tcp", hostIp), mapping(port, "udp", hostIp));
        for (const address of loopbacks) on.prober.listen("tcp", { namespace: on.wired.node, address, port });
        const results = await on.prober.run(loopbacks.map((to) => on.flow("tcp", to, port)));
        assert.deepEqual(
          results.map(({ reached: isReached, seenBy }) => (isReached ? seenBy?.name : undefined)),
          loopbacks.map((to) => (reached.includes(to) ? pod.name : on.wired.node.name)),
          `hostIP ${hostIp}`,
        );
        on.detach(pod);
        assert.equal((await on.prober.run([on.flow("tcp", localhost4, port)]))[0]?.seenBy, on.wired.node);
      }
    });

    it("R9: a program on localhost is reached from each source where no pod has the port", async () => {
      const port = on.newPort();
      const pod = on.serve("elsewhere", mapping(port, "tcp", "127.0.0.2"), mapping(port, "tcp", "::1"));
      for (const protocol of ["tcp", "udp"] as const) {
        for (const address of [localhost4, localhost6])
          on.prober.listen(protocol, { namespace: on.wired.node, address, port });
      }
      const flows = [undefined, third4, on.wired.addresses[0]].flatMap((source) => [
        on.flow("tcp", localhost4, port, source),
        on.flow("udp", localhost4, port, source),
      ]);
      const results = await on.prober.run([...flows, on.flow("udp", localhost6, port)]);
      assert.deepEqual(
        results.map(({ reached, seenBy, seenSource }) => [reached, seenBy?.name, seenSource]),
        [...flows, { source: localhost6 }].map(({ source }) => [true, on.wired.node.name, source ?? localhost4]),
      );
      on.detach(pod);
    });

    for (const family of FAMILIES) {
      it(`R10: three pods share a port number by hostIP and protocol, as upstream's conformance test asks, IPv${family}`, async () => {
        const port = 54_323;
        const localhost = family === 4 ? localhost4 : localhost6;
        const address = own(on.wired.addresses, localhost);
        const pods = [
          on.serve(`pod1-v${family}`, mapping(port, "tcp", formatAddress(localhost))),
          on.serve(`pod2-v${family}`, mapping(port, "tcp", formatAddress(address))),
          on.serve(`pod3-v${family}`, mapping(port, "udp", formatAddress(address))),
        ];
        const results = await on.prober.run([
          on.flow("tcp", localhost, port, address),
          on.flow("tcp", address, port),
          on.flow("udp", address, port),
        ]);
        assert.deepEqual(
          results.map(({ reached, seenBy, seenSource }) => [reached, seenBy?.name, seenSource]),
          pods.map(({ name }) => [true, name, address]),
        );
        for (const hostIp of [formatAddress(localhost), undefined, family === 4 ? "0.0.0.0" : "::"]) {
          const { error } = on.attach(
            lab.pod(`late${family}-${hostIp ?? "all"}`.replaceAll(/[.:]/g, "-")),
            published(mapping(port, "tcp", hostIp)),
          );
          assert.equal(error?.details, "ERR_HOST_PORT_TAKEN");
          assert.match(error?.msg ?? "", /host port 54323\/tcp.* is held by default\/pod[12]-v[46] /);
        }
        for (const pod of pods) on.detach(pod);
      });
    }

    it("R2: a UDP client on localhost that keeps its port reaches the pod once it is there, and the node again after its DEL", async () => {
      for (const [index, [to, from]] of [
        [localhost4, localhost4] as const,
        [third4, second4] as const,
        [localhost6, localhost6] as const,
      ].entries()) {
        const port = on.newPort();
        using client = new UdpClient(on.wired.node, from);
        client.send(to, port);
        const pod = on.serve(`dns${index}`, mapping(port, "udp", formatAddress(to)));
        assert.equal(await client.ask(on.prober, to, port), "answered", "by the pod");
        on.detach(pod);
        on.prober.listen("udp", { namespace: on.wired.node, address: to, port });
        assert.equal(await client.ask(on.prober, to, port), "answered", "by the node");
      }
    });

    it("R7: after the DEL of a pod with host ports on localhost, the node's tables are as before its ADD", () => {
      const listing = (): string => normalListing(withoutPortShares(on.wired.node.ruleset()));
      const before = listing();
      const pod = on.serve("short", mapping(7900, "tcp", "127.0.0.1"), mapping(7900, "udp", "::1"), mapping(7901));
      assert.match(on.wired.node.ruleset(), /tcp \. 7900 \. 127\.0\.0\.1 comment/);
      on.detach(pod);
      assert.equal(listing(), before);
    });

    if (hasDaemon) {
      it("R9 POL-07: the node's localhost reaches a pod that policies isolate, by existing and by new connections", async () => {
        const port = on.newPort();
        const pod = on.serve(
          "shut",
          ...["127.0.0.1", "127.9.8.7", "::1"].flatMap((hostIp) => [
            mapping(port, "tcp", hostIp),
            mapping(port, "udp", hostIp),
          ]),
        );
        const addresses = addressesOf(pod);
        const [v4, v6] = addresses;
        using client4 = new UdpClient(on.wired.node, third4);
        using client6 = new UdpClient(on.wired.node, localhost6);
        const speak = async (): Promise<void> => {
          assert.equal(await client4.ask(on.prober, third4, port), "answered");
          assert.equal(await client6.ask(on.prober, localhost6, port), "answered");
        };
        await speak();
        const fromOther = (): Promise<readonly ProbeResult[]> =>
          on.prober.run(
            addresses.map((address) => ({ protocol: "tcp", from: attacker, to: { address, port: PORT } }) as const),
            SHORT,
          );
        for (const { reached } of await fromOther()) assert.ok(reached, "before the policy another pod reaches it");
        const spec = { podSelector: labelled({ app: "shut" }), policyTypes: ["Ingress", "Egress"] };
        const policy = networkPolicy("default", spec);
        const object = podObject("default", pod.name, { labels: { app: "shut" }, addresses: { 4: v4, 6: v6 } });
        on.policyd?.put("shut.json", listOf([object, policy]));
        for (let left = 50; (await fromOther()).some(({ reached }) => reached); left--) {
          assert.ok(left > 0, "the policy comes into force");
          await speak();
        }
        await speak();
        const flows = [localhost4, third4, localhost6].flatMap((to) => [
          on.flow("tcp", to, port),
          on.flow("udp", to, port),
        ]);
        const results = await on.prober.run(flows);
        assert.deepEqual(
          results.map(({ reached, seenBy }) => [reached, seenBy?.name]),
          flows.map(() => [true, pod.name]),
        );
        on.detach(pod);
        on.policyd?.put("shut.json", "");
      });
    }
  });
}
