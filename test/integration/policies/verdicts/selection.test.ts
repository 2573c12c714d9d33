import { expectOf, expectPackets } from "../../../support/policy/lab/expectation.ts";
import { ninePodLab, ninePods } from "../../../support/policy/lab/nine_pods.ts";
import { type IsDenied, pairs, together } from "../../../support/policy/lab/pairs.ts";
import { podManifest } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { ALL_TRAFFIC, inBoth, type Traffic } from "../../../support/policy/lab/question.ts";
import { labelled, networkPolicy, oneOf } from "../../../support/policy/manifest.ts";
import { isIn } from "../../../support/policy/upstream_case.ts";
import {
  A,
  B,
  egressOfA,
  egressOfX,
  fromA,
  ingressOfA,
  ingressOfX,
  inNamespace,
  named,
  never,
  toA,
} from "../../../support/policy/upstream_words.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const FROM_B = { from: [{ podSelector: B }] };
const TO_B = { to: [{ podSelector: B }] };

describe("subjects and peers of policies, with packets", function () {
  this.timeout(60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({ name: "selection", bridgeNetfilter: { node1: true, node2: false } });
  });
  after(() => lab?.close());

  const hold = (policies: readonly object[], isDenied: IsDenied, ...traffics: readonly Traffic[]) =>
    expectOf(lab, [...ninePods(lab), ...policies], pairs(isDenied, ...traffics));

  it("POL-01: without a policy every pod, node and host reaches every pod", async () => {
    const others = ["outside", "stranger", "node1", "node2"].flatMap((end) => [
      ...inBoth(end, "x/a", "80/TCP", "81/UDP", "80/SCTP", "ICMP"),
      ...inBoth("x/a", end, "80/TCP", "81/UDP", "80/SCTP", "ICMP"),
    ]);
    await expectOf(lab, ninePods(lab), together(pairs(never, ...ALL_TRAFFIC, "ICMP"), { allowed: others }));
  });

  it("POL-02 POL-12 POL-14: a pod is isolated in the directions of policyTypes, and in no other", async () => {
    await hold([ingressOfA()], (_, to) => toA(to), ...ALL_TRAFFIC);
    await hold([egressOfA()], (from) => fromA(from), ...ALL_TRAFFIC);
    const both = networkPolicy("x", { podSelector: A, policyTypes: ["Ingress", "Egress"] });
    await hold([both], (from, to) => fromA(from) || toA(to), ...ALL_TRAFFIC);
    // Rules of a direction that is not among the types have no effect.
    const other = networkPolicy("x", { podSelector: A, policyTypes: ["Egress"], ingress: [], egress: [{}] });
    await hold([other], never);
  });

  it("POL-02 POL-05: an isolated pod is closed to other nodes and hosts outside, as it is to pods", async () => {
    const away = ["outside", "stranger", lab.nodeOf("x/a") === "node1" ? "node2" : "node1"];
    await expectOf(lab, [...ninePods(lab), ingressOfA()], {
      denied: away.flatMap((end) => inBoth(end, "x/a", "80/TCP", "81/UDP", "80/SCTP", "ICMP")),
      allowed: away.flatMap((end) => inBoth("x/a", end, "80/TCP", "ICMP")),
    });
    await expectOf(lab, [...ninePods(lab), egressOfA()], {
      denied: away.flatMap((end) => inBoth("x/a", end, "80/TCP", "81/UDP", "80/SCTP", "ICMP")),
      allowed: away.flatMap((end) => inBoth(end, "x/a", "80/TCP", "ICMP")),
    });
  });

  it("POL-03 POL-10: a podSelector selects only pods of the policy's own namespace; an empty one selects all of them", async () => {
    await hold([ingressOfA()], (_, to) => to === "x/a");
    await hold([ingressOfX()], (_, to) => isIn("x", to));
    await hold([networkPolicy("x", {})], (_, to) => isIn("x", to));
    const notA = networkPolicy("x", { podSelector: oneOf("pod", ["a"], "NotIn") });
    await hold([notA], (_, to) => to === "x/b" || to === "x/c");
    const unlabelled = networkPolicy("x", {
      podSelector: { matchExpressions: [{ key: "pod", operator: "DoesNotExist" }] },
    });
    await hold([unlabelled], never);
    const withBoth = networkPolicy("x", { podSelector: { ...labelled({ pod: "b" }), ...oneOf("pod", ["a", "b"]) } });
    await hold([withBoth], (_, to) => to === "x/b");
  });

  it("POL-04: policies add up, in any order", async () => {
    const all = [
      named(ingressOfX(), "deny"),
      named(ingressOfA(FROM_B), "b"),
      named(ingressOfA({ from: [inNamespace("y")] }), "y"),
    ];
    const isDenied: IsDenied = (from, to) => isIn("x", to) && !(toA(to) && (from === "x/b" || isIn("y", from)));
    await hold(all, isDenied);
    await hold(all.toReversed(), isDenied);
  });

  it("POL-05: both ends must allow a flow, on one node and across two", async () => {
    // x/b shares a node with x/a, x/c does not.
    await hold(
      [named(egressOfA(TO_B), "out"), named(networkPolicy("x", { podSelector: B, ingress: [] }), "in")],
      (from, to) => fromA(from) || to === "x/b",
    );
    await hold(
      [
        named(egressOfA({ to: [{ podSelector: labelled({ pod: "c" }) }] }), "out"),
        named(ingressOfX({ from: [{ podSelector: A }] }), "in"),
      ],
      (from, to) => (fromA(from) && to !== "x/c") || (isIn("x", to) && !fromA(from)),
    );
  });

  it("POL-11: without policyTypes a pod is always isolated for Ingress, and for Egress if there is an egress rule", async () => {
    await hold([networkPolicy("x", { podSelector: A, egress: [] })], (_, to) => toA(to));
    await hold(
      [networkPolicy("x", { podSelector: A, egress: [TO_B] })],
      (from, to) => toA(to) || (fromA(from) && to !== "x/b"),
    );
  });

  it("POL-13: the rule {} allows everything in its direction, even where other policies deny it", async () => {
    await hold([named(ingressOfX(), "deny"), named(ingressOfX({}), "allow")], never, ...ALL_TRAFFIC);
    await hold([named(egressOfX(), "deny"), named(egressOfX({}), "allow")], never, ...ALL_TRAFFIC);
    await hold([named(egressOfX(), "deny"), named(ingressOfX({}), "allow")], (from) => isIn("x", from));
  });

  it("POL-21 POL-22: a podSelector selects peers in the policy's namespace, a namespaceSelector in others, and neither selects hosts outside", async () => {
    await hold([ingressOfA(FROM_B)], (from, to) => toA(to) && from !== "x/b");
    const everywhere = [...ninePods(lab), ingressOfA({ from: [{ namespaceSelector: {} }] })];
    await expectOf(lab, everywhere, together(pairs(never), { denied: inBoth("outside", "x/a", "80/TCP") }));
    await expectOf(
      lab,
      [...ninePods(lab), egressOfA({ to: [{ namespaceSelector: {} }] })],
      together(pairs(never), { denied: inBoth("x/a", "outside", "80/TCP") }),
    );
  });

  it("POL-20: a rule without peers allows everyone, also hosts outside", async () => {
    await expectOf(lab, [...ninePods(lab), ingressOfA({ ports: [{ port: 80 }] })], {
      allowed: [
        ...inBoth("outside", "x/a", "80/TCP"),
        ...inBoth("y/b", "x/a", "80/TCP"),
        ...inBoth("node2", "x/a", "80/TCP"),
      ],
      denied: [...inBoth("outside", "x/a", "81/TCP", "80/UDP"), ...inBoth("y/b", "x/a", "81/TCP", "80/SCTP")],
    });
  });

  it("POL-23: two selectors in one entry must both match; of two entries one is enough", async () => {
    const y = inNamespace("y");
    await hold([ingressOfA({ from: [{ ...y, podSelector: B }] })], (from, to) => toA(to) && from !== "y/b");
    await hold(
      [ingressOfA({ from: [y, { podSelector: B }] })],
      (from, to) => toA(to) && !isIn("y", from) && from !== "x/b",
    );
  });

  it("POL-24: a namespace can be selected by the label with its name", async () => {
    const byName = { namespaceSelector: labelled({ "kubernetes.io/metadata.name": "y" }) };
    await hold([ingressOfA({ from: [byName] })], (from, to) => toA(to) && !isIn("y", from));
    await hold([egressOfA({ to: [byName] })], (from, to) => fromA(from) && !isIn("y", to));
  });

  it("POL-28: changed labels of pods and namespaces count at once, for subjects and peers, on either node", async () => {
    const isNew = labelled({ new: "yes" });
    const NEW = { new: "yes" };
    for (const key of ["x/a", "x/c"]) {
      const policy = networkPolicy("x", { podSelector: isNew });
      await hold([policy], never);
      await expectOf(
        lab,
        [...ninePods(lab, { [key]: NEW }), policy],
        pairs((_, to) => to === key),
      );
      await hold([policy], never);
    }
    const byPod = ingressOfA({ from: [{ namespaceSelector: {}, podSelector: isNew }] });
    await hold([byPod], (_, to) => toA(to));
    await expectOf(
      lab,
      [...ninePods(lab, { "y/a": NEW, "y/b": NEW }), byPod],
      pairs((from, to) => toA(to) && from !== "y/a" && from !== "y/b"),
    );
    await hold([byPod], (_, to) => toA(to));
    const byNamespace = ingressOfA({ from: [{ namespaceSelector: isNew }] });
    await hold([byNamespace], (_, to) => toA(to));
    await expectOf(
      lab,
      [...ninePods(lab, { y: NEW }), byNamespace],
      pairs((from, to) => toA(to) && !isIn("y", from)),
    );
    await hold([byNamespace], (_, to) => toA(to));
  });

  it("POL-54: pods of the host's network count as their node: no policy selects them, and no selector makes them peers", async () => {
    const host = podManifest(lab.place("node2"), "node2", { labels: { pod: "b" }, hostNetwork: true }, "x/host");
    const [v4, v6] = ["192.0.2.18/32", "2001:db8:0:2::2/128"].map((cidr) => ({ ipBlock: { cidr } }));
    const objects = [...ninePods(lab), host];
    await expectOf(lab, [...objects, ingressOfA(FROM_B)], {
      allowed: inBoth("x/b", "x/a", "80/TCP"),
      denied: inBoth("node2", "x/a", "80/TCP", "ICMP"),
    });
    await expectOf(lab, [...objects, ingressOfA({ from: [v4, v6] })], {
      allowed: inBoth("node2", "x/a", "80/TCP", "ICMP"),
      denied: inBoth("x/b", "x/a", "80/TCP"),
    });
    await expectOf(lab, [...objects, networkPolicy("x", { policyTypes: ["Ingress", "Egress"] })], {
      allowed: [
        ...inBoth("z/b", "node2", "80/TCP"),
        ...inBoth("node2", "z/b", "80/TCP"),
        ...inBoth("outside", "node2", "80/TCP"),
      ],
    });
    await expectOf(lab, [...objects, egressOfA(TO_B)], {
      denied: inBoth("x/a", "node2", "80/TCP"),
      allowed: inBoth("x/a", "x/b", "80/TCP"),
    });
  });

  it("POL-58: a terminating pod stays isolated and stays a peer", async () => {
    const ending = { isTerminating: true };
    const objects = ninePods(lab, {}, { "x/a": ending, "x/b": ending, "y/b": ending });
    await expectOf(
      lab,
      [...objects, ingressOfA(FROM_B)],
      pairs((from, to) => toA(to) && from !== "x/b"),
    );
    await expectOf(
      lab,
      [...objects, ingressOfA({ from: [inNamespace("y")] })],
      pairs((from, to) => toA(to) && !isIn("y", from)),
    );
  });

  it("POL-57: a pod that has ended is not a peer any more, though its labels are still there", async () => {
    const objects = ninePods(lab, {}, { "y/b": { phase: "Succeeded" }, "y/c": { phase: "Failed" } });
    await expectOf(lab, [...objects, ingressOfA({ from: [inNamespace("y")] })], {
      allowed: inBoth("y/a", "x/a", "80/TCP"),
    });
    // The evaluator has no answer to this, since a pod that has ended sends nothing. Here its address is still used.
    await expectPackets(lab, { denied: ["y/b", "y/c"].flatMap((from) => inBoth(from, "x/a", "80/TCP", "80/UDP")) });
  });
});
