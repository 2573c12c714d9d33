import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { NodeJudge } from "../../../../../objects/nodes/node_judge.ts";
import type { Node, Pod } from "../../../../../objects/model.ts";
import { ClusterStore } from "../../../../../objects/store.ts";
import { addressOwners } from "../../../../../objects/semantics/policies/address_owner.ts";
import { AddressOwners, AddressRight } from "../../../../../policyd/policies/live/index/address_owners.ts";
import { MemberIndex } from "../../../../../policyd/policies/live/index/member_index.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

const [A, B] = ["10.0.0.1", "fd00::1"].map((text) => parseAddress(text));
const ADDRESSES = [1, 2, 3].flatMap((last) => [`10.0.0.${last}`, `fd00::${last}`]);

const pod = fc
  .record({
    name: fc.constantFrom("a", "b", "c", "d"),
    nodeName: fc.constantFrom("n1", undefined),
    hostNetwork: fc.constantFrom(false, false, false, true),
    phase: fc.constantFrom("Running", "Running", "Pending", "Succeeded", "Failed"),
    isTerminating: fc.boolean(),
    addresses: fc.subarray(ADDRESSES),
  })
  .map(({ name, nodeName, hostNetwork, phase, isTerminating, addresses }): Pod =>
    objectOf("Pod", {
      metadata: { name, namespace: "n", ...(isTerminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}) },
      spec: { nodeName, hostNetwork: hostNetwork && nodeName !== undefined },
      status: { phase, podIPs: addresses.map((ip) => ({ ip })) },
    }),
  );

const node = fc
  .record({
    name: fc.constantFrom("n1", "n2"),
    type: fc.constantFrom("InternalIP", "ExternalIP"),
    addresses: fc.subarray(ADDRESSES, { maxLength: 2 }),
    podCIDRs: fc.subarray(["10.0.0.0/30", "fd00::/64"], { maxLength: 1 }),
  })
  .map(({ name, type, addresses, podCIDRs }): Node =>
    objectOf("Node", {
      metadata: { name },
      spec: { podCIDRs },
      status: { addresses: addresses.map((address) => ({ type, address })) },
    }),
  );

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ object: pod, isGone: fc.constantFrom(false, false, true) }) },
  { weight: 1, arbitrary: fc.record({ object: node, isGone: fc.boolean() }) },
);

describe("policyd/policies/live/address_owners", () => {
  it("POL-54 POL-57 POL-95: after any changes an address has the owners that the evaluator finds", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 30 }), (steps) => {
        const index = new MemberIndex();
        const store = new ClusterStore();
        const judge = new NodeJudge({ nodeName: "" });
        for (const { object, isGone } of steps) {
          const { kind, key } = object;
          const change = isGone
            ? ({ type: "delete", kind, key } as const)
            : ({ type: "set", kind, key, object } as const);
          store.apply([change]);
          for (const used of judge.apply([change])) {
            const one = used.type === "set" ? used.object : undefined;
            if (used.kind === "Pod") index.setPod(used.key, one?.kind === "Pod" ? one : undefined);
            else index.setNode(used.key, one?.kind === "Node" ? one : undefined);
          }
        }
        const expected = addressOwners(store);
        for (const text of ADDRESSES) {
          const owners = index
            .holdersOf(parseAddress(text))
            .map((holder) => (holder.type === "pod" ? { type: "pod", key: holder.pod.key } : holder));
          assert.deepEqual(owners, expected.get(parseAddress(text)) ?? [], text);
        }
      }),
    );
  });

  it("POL-28: a change returns the owners that lose or get an address, and an owner's addresses are complete", () => {
    assert.ok(A !== undefined && B !== undefined);
    const owners = new AddressOwners();
    const running = AddressRight.pod(true, false);
    assert.deepEqual([...owners.replace("p", { owner: "p", right: running, addresses: [A, B] })], ["p"]);
    const pending = AddressRight.pod(false, false);
    assert.deepEqual([...owners.replace("q", { owner: "q", right: pending, addresses: [A] })], []);
    assert.deepEqual([...owners.addressesOf("p")], [A, B]);
    const taken = owners.replace("at q", { owner: "q", right: AddressRight.attachment, addresses: [A] });
    assert.deepEqual([[...taken].sort(), [...owners.addressesOf("p")], owners.ownersOf(A)], [["p", "q"], [B], ["q"]]);
    assert.deepEqual([...owners.replace("at q", undefined)].sort(), ["p", "q"]);
    assert.deepEqual([...owners.replace("p", undefined)].sort(), ["p", "q"]);
    assert.deepEqual([owners.ownersOf(A), owners.ownersOf(B), owners.addressesOf("p").length], [["q"], [], 0]);
  });

  it("POL-95: owners with equal rights share an address, and each hears when another comes or goes", () => {
    assert.ok(A !== undefined && B !== undefined);
    const owners = new AddressOwners();
    const claim = (owner: string): void => assert.ok(owners.replace(owner, { owner, right: 3, addresses: [A] }));
    claim("p");
    assert.deepEqual([...owners.replace("o", { owner: "o", right: 3, addresses: [A] })], ["o", "p"]);
    assert.deepEqual([owners.ownersOf(A), owners.addressesOf("o"), owners.addressesOf("p")], [["o", "p"], [A], [A]]);
    assert.deepEqual([...owners.replace("p", undefined)], ["o", "p"]);
    assert.deepEqual([owners.ownersOf(A), owners.isAnyContested], [["o"], false]);
    claim("p");
    assert.deepEqual([...owners.replace("o", { owner: "o", right: 2, addresses: [A] })], ["p", "o"]);
    assert.deepEqual([owners.ownersOf(A), owners.addressesOf("o")], [["p"], []]);
  });
});
