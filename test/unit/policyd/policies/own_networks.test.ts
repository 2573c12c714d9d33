import { type InTurn, inTurn } from "../../../support/node/in_turn.ts";
import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { rangeOf } from "../../../../kernel/ip/ranges.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import type { Node } from "../../../../objects/model.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { inPodNetworks, OwnNetworks } from "../../../../policyd/policies/own_networks.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";
import { node } from "../../../support/routes/machine.ts";

describe("policyd/policies: this node's own networks", () => {
  let claimed: Map<string, readonly DesiredElement[]>;
  let networks: OwnNetworks;
  let objects: InTurn;
  let attached: readonly AttachmentRecord[];

  const begin = (...podCidrs: readonly string[]): void => {
    claimed = new Map();
    attached = [];
    const claim = (owner: string, claims: readonly DesiredElement[]): void => void claimed.set(owner, claims);
    const nodes = new NodeJudge({ nodeName: "a", ownCidrs: podCidrs.map((text) => parseCidr(text)) });
    networks = new OwnNetworks({
      ruleset: { claim },
      nodeName: "a",
      judge: nodes,
      attachments: { values: () => attached },
    });
    objects = inTurn(nodes, networks);
  };
  const apply = (...nodes: readonly Node[]): void =>
    objects.apply(nodes.map((object) => ({ type: "set", kind: "Node", key: object.key, object })));
  const claims = (): readonly string[] =>
    [...claimed.values()]
      .flatMap((some) => some.map(({ set, element }) => `${set} ${keyText(element.key)}`))
      .toSorted();
  const expected = (cidrs: Readonly<Record<string, string>>): readonly string[] =>
    Object.entries(cidrs).map(([cidr, set]) => `${set} ${keyText([rangeOf(parseCidr(cidr))])}`);

  it("POL-09: the node's own networks are the present pod CIDRs of its Node, and of no other", () => {
    begin();
    apply(node("b", ["192.0.2.2"], ["10.244.2.0/24"]));
    assert.deepEqual(claims(), []);
    apply(node("a", ["192.0.2.1"], ["10.244.1.0/24", "fd00:244:1::/64"]));
    assert.deepEqual(claims(), expected({ "10.244.1.0/24": "own4", "fd00:244:1::/64": "own6" }));
    apply(node("a", ["192.0.2.1"], ["10.244.3.0/24"]));
    assert.deepEqual(claims(), expected({ "10.244.3.0/24": "own4" }));
    objects.apply([{ type: "delete", kind: "Node", key: "a" }]);
    assert.deepEqual(claims(), []);
  });

  it("POL-09: the configured pod CIDRs are the node's own networks while its Node has none, and no longer", () => {
    begin("10.244.0.0/16");
    assert.deepEqual(claims(), expected({ "10.244.0.0/16": "own4" }));
    apply(node("a", ["192.0.2.1"], []));
    assert.deepEqual(claims(), expected({ "10.244.0.0/16": "own4" }));
    apply(node("a", ["192.0.2.1"], ["10.244.1.0/24"]));
    assert.deepEqual(claims(), expected({ "10.244.1.0/24": "own4" }));
    objects.apply([{ type: "delete", kind: "Node", key: "a" }]);
    assert.deepEqual(claims(), expected({ "10.244.0.0/16": "own4" }));
  });

  it("FOREIGN-03: the node's own networks omit addresses of Pods that another plugin has attached here", () => {
    begin("10.244.1.0/30");
    const pod = (name: string, status: object, spec: object = {}): void => {
      const verdict = judge({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace: "default", uid: `uid-${name}` },
        spec: { nodeName: "a", ...spec },
        status,
      });
      assert.ok(verdict.type === "accepted");
      objects.apply([{ type: "set", kind: "Pod", key: `default/${name}`, object: verdict.object }]);
    };
    const whole = expected({ "10.244.1.0/30": "own4" });
    const podIPs = [{ ip: "10.244.1.2" }];
    pod("elsewhere", { phase: "Running", podIPs }, { nodeName: "b" });
    pod("ended", { phase: "Succeeded", podIPs });
    pod("host", { phase: "Running", podIPs }, { hostNetwork: true });
    assert.deepEqual(claims(), whole);
    pod("former", { phase: "Running", podIPs });
    const [first, second] = ["10.244.1.0/31", "10.244.1.3/32"].map((cidr) => expected({ [cidr]: "own4" }));
    assert.deepEqual(claims(), [...(first ?? []), ...(second ?? [])].toSorted());
    attached = [attachmentRecord({ addresses: [parseCidr("10.244.1.2/32")] })];
    void networks.register();
    assert.deepEqual(claims(), whole, "the address of a pod of ours");
    attached = [];
    objects.apply([{ type: "delete", kind: "Pod", key: "default/former" }]);
    assert.deepEqual(claims(), whole);
  });

  it("NAME-04: addresses of pods are those of all Nodes' pod CIDRs, and of the configured ones while this node's has none", () => {
    const nodes = new NodeJudge({ nodeName: "a", ownCidrs: [parseCidr("2001:db8:a::/64")] });
    const isOfPods = inPodNetworks(nodes);
    const found = (): readonly string[] =>
      ["2001:db8:a::7", "2001:db8:b::7", "198.51.100.7"].filter((text) => isOfPods(parseAddress(text)));
    assert.deepEqual(found(), ["2001:db8:a::7"]);
    const object = node("b", ["192.0.2.2"], ["2001:db8:b::/64", "198.51.100.0/24"]);
    nodes.apply([{ type: "set", kind: "Node", key: "b", object }]);
    assert.deepEqual(found(), ["2001:db8:a::7", "2001:db8:b::7", "198.51.100.7"]);
    nodes.apply([{ type: "delete", kind: "Node", key: "b" }]);
    assert.deepEqual(found(), ["2001:db8:a::7"]);
    const own = node("a", ["192.0.2.1"], ["198.51.100.0/24"]);
    nodes.apply([{ type: "set", kind: "Node", key: "a", object: own }]);
    assert.deepEqual(found(), ["198.51.100.7"]);
  });
});
