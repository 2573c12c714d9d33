import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { type Address, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { add, type CallOutcome, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import { createLab, type Lab, LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { addressesIn } from "../../support/host_ports/masquerade.ts";
import { overlaps } from "../../support/host_ports/overlaps.ts";
import { everything, mapping, PORT, published } from "../../support/host_ports/published.ts";
import { UdpClient } from "../../support/host_ports/udp_client.ts";
import { normalListing, withoutPortShares } from "../../support/nftables/listing.ts";
import { configured, type DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { scrapeWhen } from "../../support/daemon/scrape.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { until } from "../../support/until.ts";

const HOST_PORT = 7000;

describe("host ports and masquerade of a node with policyd", function () {
  this.timeout(300_000);
  /** One for all tests, each of which deletes its pods. A test that fails may leave more. */
  let lab: Lab;
  let isMade = false;
  let nodes: TwoNodes;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let prober: Prober;
  let counter = 0;

  beforeEach(async function () {
    requireKernel(this);
    if (!isMade) {
      lab = createLab(`policyd-ports${++counter}`);
      nodes = twoNodes(lab);
      wired = nodes.node1;
      policyd = new PolicydNode(lab, wired, "2m");
      isMade = true;
      await start();
    }
    prober = new Prober(lab);
  });

  afterEach(function () {
    prober?.close();
    if (this.currentTest?.state === "failed") return end();
    for (const pod of lab.namespaces.filter((one) => one instanceof LabPod)) {
      detach(pod);
      lab.remove(pod);
    }
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  after(end);

  async function start(args: readonly string[] = []): Promise<void> {
    daemon = await policyd.start(args);
  }

  function end(): void {
    isMade = false;
    lab?.destroy();
  }

  const listing = (): string => withoutPortShares(wired.node.ruleset());

  const attach = (pod: LabPod, wish: Configuration = {}): CallOutcome =>
    add(wired, pod, { ...policyd.overrides, ...wish });

  const detach = (pod: LabPod, wish: Configuration = policyd.overrides): void => {
    const { exitCode, stdout } = del(wired, pod, wish);
    assert.deepEqual([exitCode, stdout], [0, ""]);
  };

  /** Attaches a pod that answers on its port. */
  const serve = (pod: LabPod, wish: Configuration): readonly Address[] => {
    const addresses = addressesIn(attach(pod, wish));
    for (const address of addresses) {
      for (const protocol of ["tcp", "udp"] as const) prober.listen(protocol, { namespace: pod, address, port: PORT });
    }
    return addresses;
  };

  /** Returns whom the router reaches at a port of the node, for each of the node's two addresses. */
  const reachedAt = async (port: number): Promise<readonly (string | undefined)[]> => {
    const flows = wired.addresses.map(
      (address) => ({ protocol: "tcp", from: nodes.router, to: { address, port } }) as const,
    );
    return (await prober.run(flows, { timeoutMilliseconds: 500 })).map(({ seenBy }) => seenBy?.name);
  };

  it("REG-04 B12 MODE-04: the daemon's tables have a pod's host ports, masquerade and MAC check until its DEL; the plugin makes no table", async () => {
    const isReady = (text: string): boolean =>
      ["masquerade_cluster4", "drawbridge-policy {"].every((word) => text.includes(word)) && !text.includes("opening");
    await until(() => isReady(listing()), "the tables are there");
    const empty = normalListing(listing());
    const pod = lab.pod("web");
    podResult(attach(pod, everything));
    assert.match(listing(), /udp \. 7000 comment "default\/web" : 10\.244\.1\.2 \. 8080/);
    assert.match(listing(), /10\.244\.1\.2 \. 10\.244\.1\.0\/24 comment "default\/web"/);
    assert.doesNotMatch(listing(), /drawbridge-cni/);
    const [gateway] = wired.gateways;
    prober.listen("udp", { namespace: wired.node, address: gateway, port: PORT });
    const isSeen = async (): Promise<boolean> => {
      const flow = { protocol: "udp", from: pod, to: { address: gateway, port: PORT } } as const;
      return (await prober.run([flow], { timeoutMilliseconds: 400 })).some(({ seenBy }) => seenBy === wired.node);
    };
    assert.equal(await isSeen(), true);
    const bridgeMac = wired.node.link("cni0").mac ?? assert.fail("no MAC");
    pod.exec("ip", ["link", "set", "eth0", "address", "02:00:00:00:00:99"]);
    pod.exec("ip", ["neigh", "replace", formatAddress(gateway), "lladdr", bridgeMac, "dev", "eth0"]);
    assert.equal(await isSeen(), false);
    detach(pod);
    assert.equal(normalListing(listing()), empty);
  });

  it("CLAIM-03: a port of the node's own programs is published for no pod, which still starts and gets its other ports", async () => {
    const own = 10_250;
    const { node } = wired;
    for (const address of wired.addresses) prober.listen("tcp", { namespace: node, address, port: own });
    for (const address of ["127.0.0.1", "::1"].map((text) => parseAddress(text))) {
      prober.listen("tcp", { namespace: node, address, port: own });
    }
    const fromNode = async (): Promise<readonly (string | undefined)[]> => {
      const places = [...wired.addresses, parseAddress("127.0.0.1"), parseAddress("::1")];
      const flows = places.map((address) => ({ protocol: "tcp", from: node, to: { address, port: own } }) as const);
      return (await prober.run(flows, { timeoutMilliseconds: 500 })).map(({ seenBy }) => seenBy?.name);
    };
    await policyd.kill();
    await start([configured(lab.scratch, { protectedPorts: [] })]);
    const wish = published(mapping(HOST_PORT), mapping(own));
    const pod = lab.pod("web");
    serve(pod, wish);
    // Without our defence the attack works.
    assert.deepEqual(
      await reachedAt(own),
      wired.addresses.map(() => pod.name),
    );
    assert.deepEqual(new Set(await fromNode()), new Set([pod.name]));
    // The next daemon takes the port away from the pod that has it.
    await policyd.kill();
    await start();
    await until(() => !listing().includes(`tcp . ${own}`), "no pod has the port");
    assert.deepEqual(
      await reachedAt(own),
      wired.addresses.map(() => node.name),
    );
    assert.deepEqual(new Set(await fromNode()), new Set([node.name]));
    assert.deepEqual(
      await reachedAt(HOST_PORT),
      wired.addresses.map(() => pod.name),
    );
    detach(pod, { ...policyd.overrides, ...wish });
    // A later pod starts, too.
    const second = lab.pod("second");
    serve(second, wish);
    assert.deepEqual(
      await reachedAt(own),
      wired.addresses.map(() => node.name),
    );
    assert.deepEqual(new Set(await fromNode()), new Set([node.name]));
    assert.deepEqual(
      await reachedAt(HOST_PORT),
      wired.addresses.map(() => second.name),
    );
    const refused = 'drawbridge_refused_sockets{claimed_by="Pod"}';
    await scrapeWhen(node, (values) => values.get(refused) === 1, "it is counted");
  });

  it("R6: a second pod with a taken host port is refused with the name of the first, and leaves nothing", () => {
    const { held, taken, free } = overlaps(wired);
    podResult(attach(lab.pod("holder"), published(...held)));
    const [before, state] = [normalListing(listing()), nodeState(wired.node)];
    const pod = lab.pod("second");
    for (const wish of taken) {
      const { exitCode, error } = attach(pod, published(mapping(7900), wish));
      assert.deepEqual([exitCode, error?.code, error?.details], [1, 106, "ERR_HOST_PORT_TAKEN"]);
      assert.match(error?.msg ?? "", /portMappings: host port 700[01]\/tcp.* is held by default\/holder .*-holder;/);
      assert.deepEqual([normalListing(listing()), nodeState(wired.node)], [before, state]);
    }
    podResult(attach(pod, published(...free)));
  });

  it("R7: a late DEL removes nothing of the pod that has the host port and the address by now", async () => {
    const [old, heir] = [lab.pod("old"), lab.pod("heir")];
    const ips = addressesIn(attach(old, everything)).map(formatAddress);
    const records = `${wired.node.runDir}/attachments/drawbridge`;
    cpSync(records, `${lab.scratch}/kept`, { recursive: true });
    detach(old);
    serve(heir, { ...everything, args: { cni: { ips } } });
    const held = normalListing(listing());
    const lateDel = (): void => {
      mkdirSync(records, { recursive: true });
      cpSync(`${lab.scratch}/kept`, records, { recursive: true });
      detach(old);
    };
    lateDel();
    assert.equal(normalListing(listing()), held);
    // A daemon that starts finds both records, and learns by the DEL which pod has gone.
    await policyd.kill();
    cpSync(`${lab.scratch}/kept`, records, { recursive: true });
    await start();
    lateDel();
    assert.equal(normalListing(listing()), held);
    assert.deepEqual(await reachedAt(HOST_PORT), ["heir", "heir"]);
  });

  it("R7: leftovers of a pod without a DEL do not keep its host port from the next pod", async () => {
    const [gone, next] = [lab.pod("gone"), lab.pod("next")];
    podResult(attach(gone, everything));
    const [host] = nodeState(wired.node).podLinks;
    assert.equal(attach(next, everything).error?.code, 106, "its record and its link are there");
    // The daemon restores a record as long as the link is there (STATE-07), and so the link goes first.
    wired.node.exec("ip", ["link", "del", host ?? assert.fail("no link")]);
    rmSync(`${wired.node.runDir}/attachments`, { recursive: true });
    serve(next, everything);
    assert.deepEqual(await reachedAt(HOST_PORT), ["next", "next"]);
    assert.doesNotMatch(listing(), /default\/gone/);
    detach(gone);
    detach(next);
    assert.doesNotMatch(listing(), /default\//);
  });

  it("R7: a pod whose address the store has given away does not keep its host port from the next pod", async () => {
    const [gone, next] = [lab.pod("gone"), lab.pod("next")];
    const ips = addressesIn(attach(gone, everything)).map(formatAddress);
    // The addresses last taken stay: without them the store would count as lost, and be restored (STATE-07).
    const store = `${wired.node.dataDir}/drawbridge`;
    // The daemon restores reservations (STATE-07), and so stands still until the next pod has the address.
    await daemon.pause();
    for (const name of readdirSync(store).filter((one) => ips.includes(one))) rmSync(`${store}/${name}`);
    // An entry of a pod with a record would keep the address (IPAM-05).
    for (const address of ips) wired.node.exec("ip", ["neighbour", "del", address, "dev", "cni0"]);
    const wish = { ...policyd.overrides, ...everything, args: { cni: { ips } } };
    const call = startPlugin(wired.node, podCall("ADD", wired, next, wish));
    await until(() => existsSync(`${store}/${ips[0]}`), "the next pod has the address");
    daemon.child.kill("SIGCONT");
    assert.deepEqual(addressesIn(await call.outcome).map(formatAddress), ips);
    assert.match(listing(), /udp \. 7000 comment "default\/next"/);
    assert.doesNotMatch(listing(), /default\/gone/);
  });

  it("REG-04: after `nft flush ruleset` a running pod's port and masquerade come back", async () => {
    serve(lab.pod("web"), everything);
    const before = normalListing(listing());
    wired.node.exec("nft", ["flush", "ruleset"]);
    await until(() => normalListing(listing()) === before, "the tables are as they were");
    assert.deepEqual(await reachedAt(HOST_PORT), ["web", "web"]);
  });

  it("REG-04 REG-03: host ports stay while the daemon is replaced, and the new one knows them and refuses them to other pods", async () => {
    serve(lab.pod("web"), everything);
    const before = normalListing(listing());
    await policyd.kill();
    assert.deepEqual(await reachedAt(HOST_PORT), ["web", "web"]);
    wired.node.exec("nft", ["flush", "ruleset"]);
    await start();
    await until(() => normalListing(listing()) === before, "the tables are as they were");
    assert.deepEqual(await reachedAt(HOST_PORT), ["web", "web"]);
    assert.match(attach(lab.pod("second"), published(mapping(HOST_PORT))).error?.msg ?? "", /held by default\/web /);
  });

  it("REG-02: a pod deleted while no daemon runs has no host port in the next daemon", async () => {
    const pod = lab.pod("web");
    podResult(attach(pod, everything));
    await policyd.kill();
    detach(pod);
    await start();
    await until(() => !listing().includes("default/web"), "its elements are gone");
    serve(lab.pod("second"), everything);
    assert.deepEqual(await reachedAt(HOST_PORT), ["second", "second"]);
  });

  it("REG-04: a pod from before the daemon keeps its host port by the plugin's table until its DEL, and no other pod gets it", async () => {
    const [early, late] = [lab.pod("early"), lab.pod("late")];
    podResult(add(wired, early, everything));
    const before = wired.node.exec("nft", ["list", "table", "inet", "drawbridge-cni"]);
    await policyd.kill();
    await start();
    assert.match(attach(late, everything).error?.msg ?? "", /held by default\/early /);
    assert.equal(wired.node.exec("nft", ["list", "table", "inet", "drawbridge-cni"]), before);
    detach(early);
    assert.doesNotMatch(listing(), /default\/early/);
    serve(late, everything);
    assert.deepEqual(await reachedAt(HOST_PORT), ["late", "late"]);
  });

  it("R2: a client that keeps its UDP port reaches a pod with a hundred host ports once the pod is there", async () => {
    const [address] = wired.addresses;
    using client = new UdpClient(nodes.router, wired.routerAddresses[0]);
    client.send(address, 7099);
    serve(lab.pod("rtp"), published(...Array.from({ length: 100 }, (_, i) => mapping(7000 + i, "udp"))));
    assert.equal(await client.ask(prober, address, 7099), "answered");
  });
});
