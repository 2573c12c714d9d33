import assert from "node:assert/strict";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { FAMILIES } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, inBoth, type Question } from "../../../support/policy/lab/question.ts";
import { Shooter } from "../../../support/policy/lab/shooter.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const PODS: NamedPods = { "x/a": { node: "node1" }, "x/b": { node: "node1" }, "y/a": { node: "node2" } };
const TABLE = "lab-harm";
const SHORT_PATIENCE = 1500;

describe("the policy lab", function () {
  this.timeout(60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("policy-lab", PODS, [80, 81]);
    await lab.apply(namedPods(lab, PODS));
  });
  after(() => lab?.close());

  /** Runs an action while rules do harm in node1's forward hook, after the policies. */
  async function harmed<T>(rules: string, action: () => Promise<T>): Promise<T> {
    const { node } = lab.wired("node1");
    node.exec(
      "nft",
      ["-f", "-"],
      `table inet ${TABLE} { chain harm { type filter hook forward priority 10; ${rules}; }; }`,
    );
    try {
      return await action();
    } finally {
      node.exec("nft", ["delete", "table", "inet", TABLE]);
    }
  }

  const marks = async (questions: readonly Question[]) =>
    new Set(
      (await askLab(lab, questions)).map(
        ({ question: { from, to, traffic }, mark }) => `${from} > ${to} ${traffic} ${mark}`,
      ),
    );

  it("the lab distinguishes dropped, refused and answered packets, on one node and across two", async () => {
    const seen = await harmed("tcp dport 80 drop; udp dport 80 reject; tcp dport 81 reject with tcp reset", async () =>
      marks(
        ["x/b", "y/a", "outside"].flatMap((to) =>
          inBoth("x/a", to, "80/TCP", "81/TCP", "80/UDP", "81/UDP", "80/SCTP", "ICMP"),
        ),
      ),
    );
    const expected = ["x/b", "y/a", "outside"].flatMap((to) =>
      ["80/TCP X", "81/TCP R", "80/UDP R", "81/UDP .", "80/SCTP .", "ICMP ."].map((end) => `x/a > ${to} ${end}`),
    );
    assert.deepEqual([...seen].sort(), expected.sort());
  });

  it("the lab sees drops of packets that a node forwards, from and to pods, nodes and hosts", async () => {
    const seen = await harmed("udp dport 81 drop", async () =>
      marks([
        ...inBoth("y/a", "x/a", "81/UDP"),
        ...inBoth("outside", "x/b", "81/UDP"),
        ...inBoth("x/a", "node2", "81/UDP"),
        ...inBoth("node1", "x/a", "81/UDP"),
        ...inBoth("y/a", "node1", "81/UDP"),
      ]),
    );
    assert.deepEqual([...seen].sort(), [
      "node1 > x/a 81/UDP .",
      "outside > x/b 81/UDP X",
      "x/a > node2 81/UDP X",
      "y/a > node1 81/UDP .",
      "y/a > x/a 81/UDP X",
    ]);
  });

  it("the lab reports a doubt, not a drop, for a packet that arrives and is not answered", async () => {
    const [from, to] = ["x/a", "x/b"].map((name) => lab.place(name));
    assert.ok(from !== undefined && to !== undefined);
    using shooter = new Shooter(lab.lab.calls, lab.counter, SHORT_PATIENCE);
    for (const family of FAMILIES)
      shooter.listen("udp", { namespace: to.namespace, address: to.addresses[family], port: 82 });
    const shots = FAMILIES.map((family) => ({
      protocol: "udp" as const,
      from: from.namespace,
      to: { address: to.addresses[family], port: 82 },
    }));
    const { fates, doubt } = await harmed("udp sport 82 drop", async () => shooter.run(shots));
    assert.deepEqual(
      fates.map(({ kind, seenBy }) => [kind, seenBy]),
      [
        ["silent", to.namespace],
        ["silent", to.namespace],
      ],
    );
    assert.equal(doubt, "2 without an answer, but only 0 dropped");
    const again = await shooter.run(shots);
    assert.deepEqual([again.fates.map(({ kind }) => kind), again.doubt], [["answered", "answered"], ""]);
  });
});
