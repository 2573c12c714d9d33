import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { uptime } from "node:os";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { add, type CallOptions, type CallOutcome, type Configuration, del } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { addressesIn } from "../../support/host_ports/masquerade.ts";
import { everything, mapping, PORT, published } from "../../support/host_ports/published.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";
import { until } from "../../support/until.ts";
import { pod as apiPod } from "../../support/daemon/api_node.ts";

const HOST_PORT = 7000;
const QUARTER = 900;

/** The plugin or the daemon keeps the rules. */
for (const hasDaemon of [false, true]) {
  describe(`sandboxes that end without DEL, the plugin ${hasDaemon ? "with policyd" : "by itself"}`, function () {
    this.timeout(60_000);
    let lab: Lab;
    let nodes: TwoNodes;
    let wired: WiredNode;
    let policyd: PolicydNode | undefined;
    let prober: Prober;
    let counter = 0;

    beforeEach(async function () {
      requireKernel(this);
      lab = createLab(`ended${hasDaemon ? "-policyd" : ""}${++counter}`);
      nodes = twoNodes(lab);
      wired = nodes.node1;
      prober = new Prober(lab);
      policyd = hasDaemon ? new PolicydNode(lab, wired) : undefined;
      await policyd?.start();
    });
    afterEach(async () => {
      prober?.close();
      await policyd?.kill();
      lab?.destroy();
    });

    const attach = (pod: LabPod, wish: Configuration = everything, options?: CallOptions): CallOutcome =>
      add(wired, pod, { ...policyd?.overrides, ...wish }, options);

    /** Attaches a pod that answers on its port. */
    const serve = (pod: LabPod, wish?: Configuration, options?: CallOptions): void => {
      for (const address of addressesIn(attach(pod, wish, options))) {
        prober.listen("tcp", { namespace: pod, address, port: PORT });
      }
    };

    const reached = async (): Promise<readonly (string | undefined)[]> => {
      const flows = wired.addresses.map(
        (address) => ({ protocol: "tcp", from: nodes.router, to: { address, port: HOST_PORT } }) as const,
      );
      return (await prober.run(flows, { timeoutMilliseconds: 500 })).map(({ seenBy }) => seenBy?.name);
    };

    const isThere = (link: string): boolean => wired.node.links().some(({ name }) => name === link);

    /**
     * Ends the pod's network namespace, and with it the link, as when a node's pods are killed and no DEL comes. A pod
     * that listens would keep its namespace.
     */
    const end = async (pod: LabPod): Promise<void> => {
      const [link = ""] = nodeState(wired.node).podLinks;
      lab.remove(pod);
      await until(() => !isThere(link), "the kernel has removed the link", 20_000);
    };

    const assertHeld = ({ error }: CallOutcome, by: string): void => {
      assert.deepEqual([error?.code, error?.details], [106, "ERR_HOST_PORT_TAKEN"]);
      assert.ok(error?.msg.includes(`held by default/${by}`), error?.msg);
    };

    /** Sets the marks of ended sandboxes back by a quarter of an hour. @returns the number of marks */
    const passTime = (): number => {
      const directory = `${wired.node.runDir}/ended/drawbridge`;
      const names = readdirSync(directory);
      for (const name of names) {
        const mark = JSON.parse(readFileSync(`${directory}/${name}`, "utf8")) as object;
        writeFileSync(`${directory}/${name}`, JSON.stringify({ ...mark, since: uptime() - QUARTER - 1 }));
      }
      return names.length;
    };

    it("ENDED-01: a sandbox's host port is refused while its link is there, and the next pod gets it once the namespace has ended", async () => {
      const [gone, next] = [lab.pod("gone"), lab.pod("next")];
      podResult(attach(gone));
      assertHeld(attach(next), "gone");
      await end(gone);
      serve(next);
      assert.deepEqual(await reached(), ["next", "next"]);
      assertHeld(attach(lab.pod("third")), "next");
      // The next daemon finds both records.
      await policyd?.kill();
      await policyd?.start();
      assert.deepEqual(await reached(), ["next", "next"]);
      // A late DEL takes nothing from the next pod.
      assert.equal(del(wired, gone, policyd?.overrides, { netns: "" }).exitCode, 0);
      assert.deepEqual(await reached(), ["next", "next"]);
      assert.equal(nodeState(wired.node).records.length, 1);
    });

    it("ENDED-01: a Pod's second sandbox gets the Pod's host ports, though the first sandbox's link is still there", async () => {
      const [first, second] = [lab.pod("first"), lab.pod("second")];
      const asFirst = { arguments: "K8S_POD_NAME=first;K8S_POD_UID=uid-first" };
      serve(first);
      assertHeld(attach(second), "first");
      assertHeld(attach(second, everything, { arguments: "K8S_POD_NAME=first;K8S_POD_UID=uid-other" }), "first");
      serve(second, everything, asFirst);
      assert.deepEqual(await reached(), ["second", "second"]);
      await policyd?.kill();
      await policyd?.start();
      assert.deepEqual(await reached(), ["second", "second"]);
      assert.equal(del(wired, first, policyd?.overrides).exitCode, 0);
      assert.deepEqual(await reached(), ["second", "second"]);
    });

    it("ENDED-01: a Pod gets the host ports of an earlier Pod of the same name whose link is gone", async () => {
      const [old, heir] = [lab.pod("old"), lab.pod("heir")];
      serve(old);
      const [link = ""] = nodeState(wired.node).podLinks;
      const asOld = { arguments: "K8S_POD_NAME=old;K8S_POD_UID=uid-heir" };
      assertHeld(attach(heir, everything, asOld), "old");
      wired.node.exec("ip", ["link", "delete", link]);
      serve(heir, everything, asOld);
      assert.deepEqual(await reached(), ["heir", "heir"]);
    });

    it("ENDED-01: an address that is asked for is free once the namespace of the sandbox that had it has ended", async () => {
      const [gone, next] = [lab.pod("gone"), lab.pod("next")];
      const wish = { args: { cni: { ips: ["10.244.1.77"] } } };
      podResult(attach(gone, wish));
      assert.equal(attach(next, wish).error?.details, "ERR_ADDRESS_UNAVAILABLE");
      await end(gone);
      podResult(attach(next, wish));
      const { records, reservations, neighbours } = nodeState(wired.node);
      assert.deepEqual([records.length, reservations.length, neighbours.length], [1, 2, 2]);
    });

    it("ENDED-03: an ADD removes an ended sandbox's addresses and record a quarter of an hour after its end, and not before", async () => {
      const [gone, next] = [lab.pod("gone"), lab.pod("next")];
      podResult(attach(gone));
      await end(gone);
      serve(next);
      podResult(attach(lab.pod("early"), published(mapping(7001))));
      const before = nodeState(wired.node);
      assert.deepEqual([before.records.length, before.reservations.length], [3, 6]);
      assert.equal(passTime(), 1);
      podResult(attach(lab.pod("late"), published(mapping(7002))));
      const after = nodeState(wired.node);
      assert.deepEqual([after.records.length, after.reservations.length, after.neighbours.length], [3, 6, 6]);
      assert.ok(!after.reservations.includes("10.244.1.2"));
      assert.doesNotMatch(wired.node.ruleset(), /default\/gone/);
      assert.deepEqual(readdirSync(`${wired.node.runDir}/ended/drawbridge`), []);
      assert.deepEqual(await reached(), ["next", "next"]);
    });

    it("ENDED-03: a marked pod whose link is there again, or was never gone, keeps its record and addresses", async () => {
      const [first, second] = [lab.pod("first"), lab.pod("second")];
      serve(first);
      serve(second, everything, { arguments: "K8S_POD_NAME=first;K8S_POD_UID=uid-first" });
      assert.equal(passTime(), 1);
      const before = nodeState(wired.node);
      podResult(attach(lab.pod("late"), published(mapping(7002))));
      const { records, reservations } = nodeState(wired.node);
      assert.deepEqual(
        [records.length, reservations.length],
        [before.records.length + 1, before.reservations.length + 2],
      );
    });

    if (hasDaemon) {
      it("ENDED-01: a pod whose link is deleted keeps its host port while its Pod is there, and no longer", async () => {
        const [gone, next] = [lab.pod("gone"), lab.pod("next")];
        policyd?.put("gone.json", JSON.stringify(apiPod("gone", "gone")));
        serve(gone);
        const [link = ""] = nodeState(wired.node).podLinks;
        wired.node.exec("ip", ["link", "delete", link]);
        assertHeld(attach(next), "gone");
        policyd?.put("gone.json", "");
        await until(() => attach(next).exitCode === 0, "the port is free", 5000);
        assert.match(wired.node.ruleset(), /7000 comment "default\/next"/);
        assert.doesNotMatch(wired.node.ruleset(), /default\/gone/);
      });

      it("ENDED-03: the daemon removes an ended sandbox's elements after a quarter of an hour, also without an ADD", async () => {
        const gone = lab.pod("gone");
        const [address] = addressesIn(attach(gone));
        assert.ok(address !== undefined);
        const listing = (): string => wired.node.ruleset();
        assert.match(listing(), /default\/gone/);
        await end(gone);
        await policyd?.kill();
        await policyd?.start();
        const marks = (): readonly string[] => readdirSync(wired.node.runDir).filter((name) => name === "ended");
        await until(() => marks().length > 0, "it is marked", 15_000);
        assert.match(listing(), /default\/gone/, "for now its elements stay");
        passTime();
        await policyd?.kill();
        await policyd?.start();
        await until(() => !listing().includes("default/gone"), "its elements are gone", 15_000);
        assert.ok(nodeState(wired.node).reservations.includes(formatAddress(address)));
      });
    }
  });
}
