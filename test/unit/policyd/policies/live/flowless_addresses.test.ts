import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { NetworkPolicy, Pod } from "../../../../../objects/model.ts";
import type { SetDifference } from "../../../../../policyd/ruleset/difference.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../../../policyd/policies/compile/policy_table.ts";
import { type AffectedAddresses, effectOf } from "../../../../../policyd/policies/live/pods/affected_addresses.ts";
import { FlowlessAddresses } from "../../../../../policyd/policies/live/pods/flowless_addresses.ts";
import { LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

function pod(name: string, labels: Readonly<Record<string, string>> = {}, ips: readonly string[] = []): Pod {
  return objectOf("Pod", {
    metadata: { name, namespace: "n", uid: `uid-${name}`, labels },
    spec: { nodeName: "node1" },
    status: { phase: "Running", podIPs: ips.map((ip) => ({ ip })) },
  });
}

const FROM_WEB: NetworkPolicy = objectOf("NetworkPolicy", {
  metadata: { name: "from-web", namespace: "n" },
  spec: { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { app: "web" } } }] }] },
});

const IPS = ["10.244.1.2", "fd00:244:1::2"] as const;
const A = attachmentOf(pod("a"), IPS);
/** Another pod with the same addresses. */
const B = attachmentOf(pod("b"), IPS);

/** A node with a policy, and the addresses whose flows each change checks. */
function setUp() {
  const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(0) });
  const reported: AffectedAddresses[] = [];
  node.change(set(FROM_WEB), set(pod("a", { app: "web" })), set(pod("b", { app: "web" })));
  node.component.follow({ verdictsChanged: ({ withFlows }) => reported.push(withFlows), stop: () => {} });
  const judged = (): readonly (string | readonly string[])[] => {
    node.settle();
    return reported
      .splice(0)
      .map((affected) => (affected === "all" ? affected : [...affected].map(formatAddress).sort()));
  };
  return { node, judged };
}

describe("policyd/policies: pods without flows", () => {
  it("POL-84: no flow is checked for a pod that comes or goes, and all flows for one that stays", () => {
    const { node, judged } = setUp();
    node.apply({ type: "attached", attachment: A, flows: "none" });
    assert.deepEqual(judged(), [[]], "the pod comes");
    node.change(set(pod("a", { app: "db" })));
    assert.deepEqual(judged(), [[...IPS]], "the pod stops being a peer");
    node.change(set(pod("a", { app: "web" }, [IPS[0]])));
    assert.deepEqual(judged(), [[...IPS]], "the pod is a peer again");
    node.apply({ type: "detached", name: A, flows: "none" });
    assert.deepEqual(judged(), [[]], "the pod goes");
  });

  it("POL-84 POD-20: flows of an address that changes its pod in one batch are checked", () => {
    const { node, judged } = setUp();
    node.apply({ type: "attached", attachment: A, flows: "none" });
    judged();
    node.change(set(pod("b", { app: "db" })));
    node.apply({ type: "detached", name: A, flows: "none" });
    node.apply({ type: "attached", attachment: B, flows: "none" });
    assert.deepEqual(judged(), [[...IPS]], "the addresses were in force all the time");
    node.apply({ type: "detached", name: B, flows: "unknown" });
    assert.deepEqual(judged(), [[...IPS]], "the promise for the first pod has ended");
  });

  it("POL-84: flows of an address that two networks have given are checked", () => {
    const { node, judged } = setUp();
    const other = { ...B, network: "other" };
    node.apply({ type: "attached", attachment: A, flows: "unknown" });
    node.apply({ type: "attached", attachment: other, flows: "none" });
    assert.deepEqual(judged(), [[...IPS]]);
  });

  it("POL-84: an address that comes and changes in one commit is checked, and so is one that is closed again by it", () => {
    const address = parseAddress("10.244.1.2");
    const element = { key: [0x0a_f4_01_02] };
    const changed = (name: string, parts: object): SetDifference => {
      const none = { deleted: [], added: [], addedKeys: [], addedKept: [] };
      return { table: policyTable(DEFAULT_POLICY_OPTIONS), set: { name, key: ["ipv4_addr"] }, ...none, ...parts };
    };
    const comes = changed("known4", { added: [element] });
    const settled = (differences: readonly SetDifference[], isClaimed: boolean, isWhole = false): number =>
      flowless.settle(effectOf({ isWhole, differences }), () => isClaimed).size;
    const flowless = new FlowlessAddresses();
    flowless.comes("a", [address]);
    assert.equal(settled([comes], true), 1);
    flowless.comes("a", [address]);
    assert.equal(settled([comes, changed("egress4", { deleted: [element], added: [element] })], true), 0);
    flowless.comes("a", [address]);
    assert.equal(settled([comes, changed("known4", { deleted: [element] })], false), 0);
    assert.equal(settled([comes], true), 0, "the address was in force before");
    flowless.comes("a", [address]);
    assert.equal(settled([], false, true), 0);
    assert.equal(settled([comes], true), 0, "while the table was away anything may have passed");
  });
});
