import assert from "node:assert/strict";
import { type Crowd, crowd } from "../../../bench/policy/crowd.ts";
import { benchPolicy, pertinentPod } from "../../../bench/policy/cluster.ts";
import { KubeRouter } from "../../../bench/policy/kube_router.ts";
import { podText, policyText, resolvePolicy } from "../../../bench/policy/kube_router_layout.ts";
import { NftProgram } from "../../../bench/policy/nft_program.ts";
import { Obvious } from "../../../bench/policy/obvious.ts";
import { Wire } from "../../../bench/policy/wire.ts";
import { createLab, type Lab } from "../../../lab/lab.ts";
import { requireKernel } from "../../../support/privilege.ts";

/** Returns the crowd without the policy that admits its client. */
function refusing(many: Crowd): Crowd {
  return { ...many, policies: many.policies.slice(0, -1) };
}

describe("the policy benchmark's peer layouts", () => {
  const two = crowd(2);

  it("kube-router's layout has five rules for each pod in the base chains, and two sets for a policy of one rule", () => {
    const pod = podText(4, "1", two.server, two.policies).trimEnd().split("\n");
    assert.equal(pod.filter((line) => line.includes(" KUBE-ROUTER-")).length, 5);
    assert.equal(pod.filter((line) => line.includes("run through nw policy")).length, 2);
    const [policy] = two.policies;
    assert.ok(policy);
    const text = policyText(6, "1", resolvePolicy(policy, two.pods));
    assert.equal(text.match(/^add set /gm)?.length, 2);
    assert.equal(text.match(/^add rule /gm)?.length, 2);
    assert.ok(text.includes(two.server.address6) && !text.includes(two.server.address4));
  });

  describe("in the kernel", () => {
    let lab: Lab;

    before(function () {
      requireKernel(this);
      lab = createLab("bench-policy");
    });

    after(() => lab?.destroy());

    for (const [name, write] of [
      [
        "the obvious one",
        (nft: NftProgram, { pods, policies }: Crowd) => void new Obvious(nft, pods, policies).build(),
      ],
      [
        "kube-router's",
        (nft: NftProgram, { pods, policies }: Crowd) => void new KubeRouter(nft, pods, policies).build(),
      ],
    ] as const) {
      it(`the layout "${name}" admits only the clients that a policy names`, () => {
        const prefix = name === "kube-router's" ? "kr" : "obvious";
        using open = new Wire(lab, lab.namespace(`${prefix}-open`), two.client, two.server);
        write(new NftProgram(open.node, lab.scratch), two);
        assert.equal(open.firstPackets(3).length, 3);
        assert.equal(open.furtherPackets(3).length, 3);
        using closed = new Wire(lab, lab.namespace(`${prefix}-closed`), two.client, two.server);
        assert.equal(closed.passes(), true);
        write(new NftProgram(closed.node, lab.scratch), refusing(two));
        assert.equal(closed.passes(), false);
      });
    }

    it("both layouts can add and remove a pod and a policy", () => {
      const pods = [two.server, two.client];
      const policy = benchPolicy(0);
      const pod = pertinentPod(10_000);
      for (const [name, layout] of [
        ["obvious-change", Obvious],
        ["kr-change", KubeRouter],
      ] as const) {
        const node = lab.namespace(name);
        const contestant = new layout(new NftProgram(node, lab.scratch), pods, [policy]);
        const listing = (): string => node.exec("nft", ["-nn", "list", "ruleset"]);
        contestant.build();
        assert.ok(!listing().includes(pod.address4));
        contestant.addPod(pod);
        assert.ok(listing().includes(pod.address4) && listing().includes(pod.address6), listing());
        contestant.removePod(pod);
        assert.ok(!listing().includes(pod.address4));
        const size = (): number => listing().split("\n").length;
        const before = size();
        contestant.addPolicy({ ...policy, name: "another" });
        assert.ok(size() > before);
        contestant.removePolicy({ ...policy, name: "another" });
        if (contestant instanceof Obvious) assert.equal(size(), before);
      }
    });
  });
});
