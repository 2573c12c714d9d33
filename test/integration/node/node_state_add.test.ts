import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { add, check, del } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";

/** Commands that take something from the bridge between two ADDs, with no daemon that would restore it. */
const HARMS: readonly (readonly string[])[] = [
  ["route", "delete", "10.244.1.0/24", "dev", "cni0"],
  ["route", "delete", "fd00:244:1::/64", "dev", "cni0"],
  ["address", "flush", "dev", "cni0", "scope", "global"],
  ["route", "flush", "dev", "cni0"],
];

describe("ADD and CHECK on a node whose state was harmed", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let prober: Prober;
  let counter = 0;

  before(function () {
    lab = suiteLab(this, "node-state-add");
    ({ node1: wired } = twoNodes(lab));
    prober = new Prober(lab);
  });

  function attach() {
    const pod = lab.pod(`p${counter++}`);
    const outcome = add(wired, pod);
    assert.equal(outcome.error, undefined, JSON.stringify(outcome.error));
    return { pod, result: outcome.result ?? {} };
  }

  /** Returns whether the first packets from the node reach a pod, and those from the pod reach the node. */
  async function areReached(pod: LabPod): Promise<readonly boolean[]> {
    const found = nodeState(wired.node).reservations.length;
    assert.ok(found > 0);
    const addresses = pod
      .exec("ip", ["-o", "address", "show", "dev", "eth0", "scope", "global"])
      .split("\n")
      .flatMap((line) => /inet6? (\S+)\/\d+/.exec(line)?.[1] ?? []);
    const flows = [
      ...addresses.map((address) => ({ from: wired.node, address })),
      ...["10.244.1.1", "fd00:244:1::1"].map((address) => ({ from: pod, address })),
    ].map(({ from, address }) => ({
      protocol: "icmp" as const,
      from,
      to: { address: parseAddress(address), port: 0 },
    }));
    return (await prober.run(flows, { timeoutMilliseconds: 10_000 })).map(({ reached }) => reached);
  }

  for (const harm of HARMS) {
    it(`STATE-05: after ip ${harm.join(" ")} the next ADD repairs the bridge, and all pods are reached`, async () => {
      const earlier = attach();
      wired.node.exec("ip", harm);
      const broken = check(wired, earlier.pod, earlier.result);
      assert.equal(broken.error?.code, 107, `CHECK notices: ${JSON.stringify(broken)}`);
      const { pod, result } = attach();
      assert.deepEqual(await areReached(pod), [true, true, true, true]);
      assert.deepEqual(await areReached(earlier.pod), [true, true, true, true]);
      for (const [one, its] of [[pod, result] as const, [earlier.pod, earlier.result] as const]) {
        assert.equal(check(wired, one, its).error, undefined);
        del(wired, one);
      }
    });
  }

  it("STATE-05: the next ADD corrects a setting of the bridge that keeps packets from being forwarded", () => {
    const { pod } = attach();
    wired.node.writeSysctl("net/ipv4/conf/cni0/forwarding", "0");
    wired.node.writeSysctl("net/ipv6/conf/cni0/accept_ra", "2");
    const second = attach();
    assert.deepEqual(
      ["net/ipv4/conf/cni0/forwarding", "net/ipv6/conf/cni0/accept_ra"].map((key) => wired.node.readSysctl(key)),
      ["1", "0"],
    );
    for (const one of [pod, second.pod]) del(wired, one);
  });

  it("STATE-05: ADD fails where another program's route leads a pod's packets elsewhere, names the way out and leaves nothing", () => {
    const { pod } = attach();
    const before = nodeState(wired.node).reservations;
    wired.node.exec("ip", ["route", "add", "blackhole", "10.244.1.0/25", "proto", "80"]);
    const refused = add(wired, lab.pod("refused"));
    wired.node.exec("ip", ["route", "delete", "blackhole", "10.244.1.0/25"]);
    assert.match(
      `${refused.error?.msg} ${refused.error?.details}`,
      /such as 10\.244\.1\.\d+, to nowhere \(EINVAL\) instead of bridge cni0: remove the route or rule that does it/,
    );
    assert.deepEqual(nodeState(wired.node).reservations, before);
    del(wired, pod);
  });
});
