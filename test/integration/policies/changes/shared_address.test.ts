import { expectOf, expectPackets } from "../../../support/policy/lab/expectation.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { type PodFields, podManifest } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { inBoth } from "../../../support/policy/lab/question.ts";
import { clusterNetworkPolicy, labelled, networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const CLIENT = "x/client";
/** Before the client by name. */
const STALE = "x/a-stale";
const SERVERS: NamedPods = { "y/picky": { node: "node1" }, "y/open": { node: "node1" } };
const GOOD: PodFields = { labels: { app: "good" } };
const EVIL: PodFields = { labels: { app: "evil" } };
const PLAIN: PodFields = { labels: { app: "plain" } };
const CLIENTS = { namespaceSelector: labelled({ project: "x" }) };
const POLICIES = [
  networkPolicy("y", {
    podSelector: { matchExpressions: [{ key: "app", operator: "DoesNotExist" }] },
    ingress: [{ from: [{ ...CLIENTS, podSelector: labelled({ app: "good" }) }] }],
  }),
  clusterNetworkPolicy("no-evil", {
    tier: "Admin",
    priority: 1,
    subject: { pods: { namespaceSelector: labelled({ project: "y" }), podSelector: labelled({ app: "open" }) } },
    ingress: [
      {
        action: "Deny",
        from: [{ pods: { namespaceSelector: CLIENTS.namespaceSelector, podSelector: labelled({ app: "evil" }) } }],
      },
    ],
  }),
];
const TO_PICKY = inBoth(CLIENT, "y/picky", "80/TCP", "ICMP");
const TO_OPEN = inBoth(CLIENT, "y/open", "80/TCP", "ICMP");

describe("two running Pods with one address, with packets to another node", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("shared-address", { [CLIENT]: { node: "node2" }, ...SERVERS }, [80]);
  });
  after(() => lab?.close());

  /** The pod that has the address, and another Pod that claims it; undefined for one that is not there. */
  const objects = (client: PodFields | undefined, stale: PodFields | undefined): readonly object[] => [
    ...namedPods(lab, { "y/picky": { node: "node1" }, "y/open": { node: "node1", labels: { app: "open" } } }),
    ...namedPods(lab, { [CLIENT]: { node: "node2", ...client } })
      .slice(2)
      .filter((_, index) => index === 0 || client !== undefined),
    ...(stale === undefined ? [] : [podManifest(lab.place(CLIENT), "node1", stale, STALE)]),
    ...POLICIES,
  ];
  const judged = (client: PodFields, stale: PodFields | undefined, isPicked: boolean, isDenied: boolean) =>
    expectOf(lab, objects(client, stale), {
      allowed: [...(isPicked ? TO_PICKY : []), ...(isDenied ? [] : TO_OPEN)],
      denied: [...(isPicked ? [] : TO_PICKY), ...(isDenied ? TO_OPEN : [])],
    });

  it("POL-95: the labels of a stale Pod with a pod's address admit nothing, whether it comes first or later or is relabelled", async () => {
    await lab.apply(objects(undefined, GOOD));
    await judged(PLAIN, GOOD, false, false);
    await judged(PLAIN, undefined, false, false);
    await judged(PLAIN, GOOD, false, false);
    await judged(PLAIN, PLAIN, false, false);
    await judged(PLAIN, GOOD, false, false);
  });

  it("POL-95: what both are allowed is allowed, and what a rule denies to one of them is denied", async () => {
    await judged(GOOD, GOOD, true, false);
    await judged(GOOD, EVIL, false, true);
    await judged(EVIL, GOOD, false, true);
    await judged(GOOD, PLAIN, false, false);
  });

  it("POL-95: when one of the two is deleted, only the other has the address", async () => {
    await judged(GOOD, EVIL, false, true);
    await judged(GOOD, undefined, true, false);
    await judged(EVIL, GOOD, false, true);
    await lab.apply(objects(undefined, GOOD));
    await expectPackets(lab, { allowed: [...TO_PICKY, ...TO_OPEN] });
  });

  it("POL-54 POL-57 POL-95: a Pod that has finished, is about to end or is of the host's network lends no labels", async () => {
    for (const fields of [{ phase: "Succeeded" }, { phase: "Failed" }, { phase: "Pending" }, { isTerminating: true }]) {
      await judged(PLAIN, { ...GOOD, ...fields }, false, false);
      await judged(GOOD, { ...EVIL, ...fields }, true, false);
    }
    await lab.apply(objects(PLAIN, { ...GOOD, hostNetwork: true }));
    await expectPackets(lab, { denied: TO_PICKY });
  });
});
