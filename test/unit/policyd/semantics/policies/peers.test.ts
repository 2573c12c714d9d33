import assert from "node:assert/strict";
import { labelled, networkPolicy } from "../../../../support/policy/manifest.ts";
import { allowed, ask, indexOf } from "../../../../support/policy/question.ts";
import { KEYS, threeByThree } from "../../../../support/policy/three_by_three.ts";

const A = labelled({ pod: "a" });

/** The senders that reach x/a with these peers. */
function reaches(from: readonly object[] | null, senders: readonly string[] = KEYS): readonly string[] {
  const index = indexOf([...threeByThree(), networkPolicy("x", { podSelector: A, ingress: [{ from }] })]);
  return senders.filter((sender) => sender !== "x/a" && ask(index, [sender, "x/a"]).kind === "allowed");
}

describe("policyd/semantics/policies: peers", () => {
  it("POL-20: a rule is for its peers at its ports, and a part that is omitted does not restrict it", () => {
    const rule = { from: [{ podSelector: labelled({ pod: "b" }) }], ports: [{ port: 80 }] };
    const index = indexOf([...threeByThree(), networkPolicy("x", { podSelector: A, ingress: [rule] })]);
    assert.deepEqual(
      allowed(index, [
        ["x/b", "x/a"],
        ["x/c", "x/a"],
      ]),
      ["x/b -> x/a"],
    );
    assert.deepEqual(
      allowed(
        index,
        [
          ["x/b", "x/a"],
          ["x/c", "x/a"],
        ],
        "81/TCP",
      ),
      [],
    );
    for (const nobody of [null, []]) {
      assert.deepEqual(reaches(nobody, ["x/b", "z/c", "192.0.2.1", "node/node-y"]).length, 4, "everyone");
    }
  });

  it("POL-21: a podSelector without a namespaceSelector selects in the policy's namespace", () => {
    assert.deepEqual(reaches([{ podSelector: {} }]), ["x/b", "x/c"]);
    assert.deepEqual(reaches([{ podSelector: labelled({ pod: "b" }) }]), ["x/b"]);
  });

  it("POL-22: a namespaceSelector selects all pods of namespaces with its labels, and never the outside", () => {
    assert.deepEqual(reaches([{ namespaceSelector: labelled({ ns: "y" }) }]), ["y/a", "y/b", "y/c"]);
    assert.deepEqual(reaches([{ namespaceSelector: labelled({ pod: "b" }) }]), []);
    assert.deepEqual(reaches([{ namespaceSelector: {} }], [...KEYS, "192.0.2.1", "node/node-y"]), KEYS.slice(1));
  });

  it("POL-23: two selectors in one entry must both match, and of two entries one", () => {
    const [pod, namespace] = [{ podSelector: labelled({ pod: "b" }) }, { namespaceSelector: labelled({ ns: "y" }) }];
    assert.deepEqual(reaches([{ ...pod, ...namespace }]), ["y/b"]);
    assert.deepEqual(reaches([pod, namespace]), ["x/b", "y/a", "y/b", "y/c"]);
  });

  it("POL-24: a namespace has the label with its name, also without a Namespace object", () => {
    const byName = [{ namespaceSelector: labelled({ "kubernetes.io/metadata.name": "y" }) }];
    assert.deepEqual(reaches(byName), ["y/a", "y/b", "y/c"]);
    const unknown = threeByThree().filter((one) => !("kind" in one) || one.kind !== "Namespace");
    const index = indexOf([...unknown, networkPolicy("x", { podSelector: A, ingress: [{ from: byName }] })]);
    assert.deepEqual(
      allowed(index, [
        ["y/a", "x/a"],
        ["z/a", "x/a"],
      ]),
      ["y/a -> x/a"],
    );
  });

  it("POL-25: an ipBlock is its cidr without its exceptions, which take nothing from other blocks", () => {
    const block = (cidr: string, ...except: readonly string[]) => ({ ipBlock: { cidr, except } });
    const senders = ["192.0.1.255", "192.0.2.0", "192.0.2.63", "192.0.2.64", "192.0.2.127", "192.0.2.128", "192.0.3.0"];
    assert.deepEqual(reaches([block("192.0.2.0/24", "192.0.2.64/26")], senders), [
      "192.0.2.0",
      "192.0.2.63",
      "192.0.2.128",
    ]);
    assert.deepEqual(reaches([block("192.0.2.0/24", "192.0.2.0/25"), block("192.0.2.64/28")], senders), [
      "192.0.2.64",
      "192.0.2.128",
    ]);
    const sixes = ["fd00:1::", "fd00:1:0:1::5", "fd00:1:1::", "fd00:2::"];
    assert.deepEqual(reaches([block("fd00:1::/32", "fd00:1:0:1::/64")], sixes), ["fd00:1::", "fd00:1:1::"]);
  });

  it("POL-25: a block of one family does not cover the other", () => {
    assert.deepEqual(reaches([{ ipBlock: { cidr: "0.0.0.0/0" } }], ["192.0.2.1", "fd00:1::1"]), ["192.0.2.1"]);
    assert.deepEqual(reaches([{ ipBlock: { cidr: "::/0" } }], ["192.0.2.1", "fd00:1::1"]), ["fd00:1::1"]);
    const spec = { podSelector: A, ingress: [{ from: [{ ipBlock: { cidr: "10.244.0.0/16" } }] }] };
    const index = indexOf([...threeByThree(), networkPolicy("x", spec)]);
    const kinds = ([4, 6] as const).map((family) => ask(index, ["y/a", "x/a"], "80/TCP", { family }).kind);
    assert.deepEqual(kinds, ["allowed", "denied"]);
  });

  it("POL-26: an ipBlock also covers pods and nodes by their addresses", () => {
    assert.deepEqual(reaches([{ ipBlock: { cidr: "10.244.2.0/24", except: ["10.244.2.2/32"] } }]), ["y/a", "y/c"]);
    assert.deepEqual(reaches([{ ipBlock: { cidr: "10.240.0.2/32" } }], ["node/node-y", "node/node-z"]), [
      "node/node-y",
    ]);
  });

  it("POL-28: labels and owners of addresses count as they are when the index is built", () => {
    const from = [{ namespaceSelector: labelled({ team: "a" }), podSelector: labelled({ role: "client" }) }];
    const policy = networkPolicy("x", { podSelector: A, ingress: [{ from }] });
    const before = indexOf([...threeByThree({ y: { team: "a" } }), policy]);
    const after = indexOf([...threeByThree({ y: { team: "a" }, "y/b": { role: "client" } }), policy]);
    assert.deepEqual([ask(before, ["y/b", "x/a"]).kind, ask(after, ["y/b", "x/a"]).kind], ["denied", "allowed"]);
    assert.equal(ask(after, ["10.244.2.2", "x/a"]).kind, "allowed");
    assert.equal(ask(before, ["10.244.2.2", "x/a"]).kind, "denied");
  });
});
