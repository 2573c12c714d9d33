import { hostCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { newAddress } from "../../../../kernel/route/interface_address.ts";
import { newRoute } from "../../../../kernel/route/route.ts";
import { routeTo } from "../../../lab/topology.ts";
import { expectOf } from "../../../support/policy/lab/expectation.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { inBoth, type Question, type Traffic } from "../../../support/policy/lab/question.ts";
import { labelled, networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const PODS: NamedPods = {
  "default/db": { node: "node1", labels: { role: "db" } },
  "default/db-2": { node: "node2", labels: { role: "db" } },
  "default/frontend": { node: "node1", labels: { role: "frontend" } },
  "default/frontend-2": { node: "node2", labels: { role: "frontend" } },
  "default/other": { node: "node1", labels: { role: "other" } },
  "myproject/any": { node: "node1", labels: {} },
  "myproject/any-2": { node: "node2", labels: { role: "other" } },
  "elsewhere/frontend": { node: "node1", labels: { role: "frontend" } },
};
const DBS = ["default/db", "default/db-2"];
const PORTS = [53, 5977, 5978, 5979, 6378, 6379, 6380, 31_999, 32_000, 32_768, 32_769] as const;
/** Sources within the example's block, on both sides of its exception. */
const ALLOWED_SOURCES = ["172.17.0.0", "172.17.0.255", "172.17.2.0", "172.17.255.255"];
const DENIED_SOURCES = ["172.16.255.255", "172.17.1.0", "172.17.1.255", "172.18.0.0"];
const ALLOWED_DESTINATIONS = ["10.0.0.1", "10.0.0.255"];
const DENIED_DESTINATIONS = ["10.0.1.0", "9.255.255.255"];

/** The policy of https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-resource. */
const EXAMPLE = networkPolicy(
  "default",
  {
    podSelector: labelled({ role: "db" }),
    policyTypes: ["Ingress", "Egress"],
    ingress: [
      {
        from: [
          { ipBlock: { cidr: "172.17.0.0/16", except: ["172.17.1.0/24"] } },
          { namespaceSelector: labelled({ project: "myproject" }) },
          { podSelector: labelled({ role: "frontend" }) },
        ],
        ports: [{ protocol: "TCP", port: 6379 }],
      },
    ],
    egress: [{ to: [{ ipBlock: { cidr: "10.0.0.0/24" } }], ports: [{ protocol: "TCP", port: 5978 }] }],
  },
  "test-network-policy",
);

/** The example of a port range on the same page. */
const RANGE = networkPolicy(
  "default",
  {
    podSelector: labelled({ role: "db" }),
    policyTypes: ["Egress"],
    egress: [
      { to: [{ ipBlock: { cidr: "10.0.0.0/24" } }], ports: [{ protocol: "TCP", port: 32_000, endPort: 32_768 }] },
    ],
  },
  "multi-port-egress",
);

describe("the examples of the Kubernetes documentation with packets", function () {
  this.timeout(60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("examples", PODS, PORTS);
    giveOutside(lab, [...ALLOWED_SOURCES, ...DENIED_SOURCES, ...ALLOWED_DESTINATIONS, ...DENIED_DESTINATIONS]);
  });
  after(() => lab?.close());

  const into = (from: string, ...traffics: readonly Traffic[]): readonly Question[] =>
    DBS.flatMap((db) => inBoth(from, db, ...traffics));
  const from = (sources: readonly string[], ...traffics: readonly Traffic[]): readonly Question[] =>
    DBS.flatMap((to) =>
      sources.flatMap((source) =>
        traffics.map((traffic) => ({ from: "outside", source, to, traffic, family: 4 }) as const),
      ),
    );
  const outTo = (destinations: readonly string[], ...traffics: readonly Traffic[]): readonly Question[] =>
    DBS.flatMap((db) => destinations.flatMap((to) => inBoth(db, to, ...traffics)));
  const besides: readonly Traffic[] = ["6378/TCP", "6380/TCP", "6379/UDP", "6379/SCTP", "ICMP"];
  const friends = ["default/frontend", "default/frontend-2", "myproject/any", "myproject/any-2"];
  const strangers = ["default/other", "default/db", "elsewhere/frontend"];

  it("POL-40: the database gets TCP 6379 from front ends, the project and the block, and sends TCP 5978 to the other block", async () => {
    await expectOf(lab, [...namedPods(lab, PODS), EXAMPLE], {
      allowed: [
        ...friends.flatMap((friend) => into(friend, "6379/TCP")),
        ...from(ALLOWED_SOURCES, "6379/TCP"),
        ...outTo(ALLOWED_DESTINATIONS, "5978/TCP"),
        // Other pods connect as before.
        ...inBoth("default/other", "default/frontend", "6379/TCP", "53/UDP"),
      ],
      denied: [
        ...friends.flatMap((friend) => into(friend, ...besides)),
        ...strangers.flatMap((stranger) => into(stranger, "6379/TCP").filter(({ to }) => to !== stranger)),
        ...from(ALLOWED_SOURCES, "6378/TCP", "6380/TCP", "6379/UDP"),
        ...from(DENIED_SOURCES, "6379/TCP"),
        ...outTo(ALLOWED_DESTINATIONS, "5977/TCP", "5979/TCP", "5978/UDP", "ICMP"),
        ...outTo(DENIED_DESTINATIONS, "5978/TCP"),
        // DNS queries are denied as well.
        ...DBS.flatMap((db) => inBoth(db, "myproject/any-2", "53/UDP", "53/TCP")),
        ...DBS.flatMap((db) => inBoth(db, "default/other", "5978/TCP")),
      ],
    });
  });

  it("POL-41: the port range 32000 to 32768 allows both its ends, and denies 31999 and 32769", async () => {
    await expectOf(lab, [...namedPods(lab, PODS), RANGE], {
      allowed: outTo(ALLOWED_DESTINATIONS, "32000/TCP", "32768/TCP"),
      denied: [
        ...outTo(ALLOWED_DESTINATIONS, "31999/TCP", "32769/TCP", "32000/UDP"),
        ...outTo(DENIED_DESTINATIONS, "32000/TCP"),
      ],
    });
  });
});

/** Gives the host outside more addresses, at which it listens and from which it sends. */
function giveOutside(lab: PolicyLab, texts: readonly string[]): void {
  const outside = lab.place("outside");
  const { index } = outside.namespace.link("lo");
  const gateway = outside.addresses[4];
  for (const text of texts) {
    const address = parseAddress(text);
    outside.namespace.route.request(newAddress(index, hostCidr(address)));
    lab.nodes.router.route.request(newRoute(routeTo(parseCidr(`${text}/32`), gateway)));
    for (const protocol of ["tcp", "udp", "sctp"] as const) {
      for (const port of PORTS) lab.shooter.listen(protocol, { namespace: outside.namespace, address, port });
    }
  }
}
