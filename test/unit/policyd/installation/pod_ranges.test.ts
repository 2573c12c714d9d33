import assert from "node:assert/strict";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { problemsIn } from "../../../../objects/nodes/node_verdict.ts";
import { podRanges, textOf } from "../../../../policyd/installation/pod_ranges.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const NOW = Date.parse("2030-01-01T00:05:00Z");

/** @param since the time since when the Node is not Ready; undefined for a Ready one */
function node(name: string, podCidrs: readonly string[], addresses: readonly string[] = [], since?: string): string {
  const spec = podCidrs.length === 0 ? "{}" : `{ podCIDRs: [${podCidrs.map((cidr) => JSON.stringify(cidr)).join()}] }`;
  const list = addresses.map((address) => `{ type: InternalIP, address: "${address}" }`).join();
  const ready = since === undefined ? "" : `{ type: Ready, status: Unknown, lastTransitionTime: "${since}" }`;
  const status = `{ addresses: [${list}], conditions: [${ready}] }`;
  return `---\n{ apiVersion: v1, kind: Node, metadata: { name: ${name} }, spec: ${spec}, status: ${status} }\n`;
}

function rangesOf(manifests: string, configured: readonly string[] = []): { ranges?: string; problems: string } {
  const ownCidrs = configured.map((text) => parseCidr(text));
  const judge = new NodeJudge({ nodeName: "n1", ownCidrs, clock: { now: () => 0, time: () => NOW } });
  judge.apply(readScenario(manifests).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  judge.synced();
  const { ranges, problems } = podRanges("n1", judge, ownCidrs);
  const all = [...problems, ...problemsIn(judge.judged)];
  return { ...(ranges === undefined ? {} : { ranges: textOf(ranges) }), problems: all.join("; ") };
}

describe("policyd/installation: pod ranges", () => {
  it("POD-17: the ranges are those of the own Node, in its order, of one family or both", () => {
    const others = node("n2", ["10.244.2.0/24", "fd00:244:2::/64"], ["192.0.2.2"]);
    for (const own of [["10.244.1.0/24"], ["fd00:244:1::/64"], ["10.244.1.0/24", "fd00:244:1::/64"]]) {
      for (const order of [own, own.toReversed()]) {
        assert.deepEqual(rangesOf(node("n1", order) + others), { ranges: order.join(", "), problems: "" });
      }
    }
  });

  it("POD-17: without a Node or its pod CIDRs there are no ranges, and the problem says who has to assign them", () => {
    assert.match(rangesOf(node("n2", ["10.244.2.0/24"])).problems, /no Node object n1.*nodeName/);
    const waiting = rangesOf(node("n1", []));
    assert.equal(waiting.ranges, undefined);
    assert.match(waiting.problems, /Node n1 has no spec\.podCIDRs.*--allocate-node-cidrs=true.*podCIDRs in the config/);
  });

  it("POD-17: configured ranges are used if the Node has none, and a contradiction to the Node is reported", () => {
    assert.deepEqual(rangesOf(node("n1", []), ["10.9.0.0/24"]), { ranges: "10.9.0.0/24", problems: "" });
    assert.deepEqual(rangesOf(node("n1", ["10.9.0.0/24"]), ["10.9.0.0/24"]), { ranges: "10.9.0.0/24", problems: "" });
    for (const manifests of [node("n1", []), node("n2", [])]) {
      const unfit = rangesOf(manifests, ["169.254.0.0/20"]);
      assert.equal(unfit.ranges, undefined);
      assert.match(unfit.problems, /overlaps 169\.254\.0\.0\/16/);
    }
    const { ranges, problems } = rangesOf(node("n1", ["10.244.1.0/24"]), ["10.9.0.0/24"]);
    assert.equal(ranges, "10.244.1.0/24");
    assert.match(problems, /^podCIDRs: 10\.9\.0\.0\/24, but Node n1 has 10\.244\.1\.0\/24/);
  });

  it("POD-17: ranges that would give one address to two owners are refused with a reason", () => {
    const cases: readonly (readonly [manifests: string, expected: RegExp])[] = [
      [node("n1", ["10.244.0.0/16", "10.244.1.0/24"]), /at most one prefix of each family/],
      [node("n1", ["10.244.1.0/24"]) + node("n2", ["10.244.0.0/16"]), /overlaps with 10\.244\.0\.0\/16 of Node n2/],
      [node("n1", ["10.244.0.0/16"]) + node("n2", ["10.244.9.0/24"]), /overlaps with 10\.244\.9\.0\/24 of Node n2/],
      [node("n1", ["0.0.0.0/0"]), /0\.0\.0\.0\/0 is larger than a \/8/],
      [node("n1", ["169.254.0.0/20"]), /overlaps 169\.254\.0\.0\/16/],
      [node("n1", ["2001:db8::/64"], ["2001:db8::5"]), /contains 2001:db8::5, the only address/],
      [
        node("n1", ["10.244.1.0/24", "2001:db8::/64"], ["192.0.2.1", "2001:db8::5"]),
        /2001:db8::\/64 contains 2001:db8::5, the only address/,
      ],
      [
        node("n1", ["10.244.1.0/24"]) + node("n2", ["10.244.1.0/24"], [], "2030-01-01T00:00:01Z"),
        /overlaps with 10\.244\.1\.0\/24 of Node n2/,
      ],
      [node("n1", ["10.244.1.0/32"]), /10\.244\.1\.0\/32/],
    ];
    for (const [manifests, expected] of cases) {
      const { ranges, problems } = rangesOf(manifests);
      assert.equal(ranges, undefined, problems);
      assert.match(problems, expected);
      assert.match(problems, /^Node n1/);
    }
  });

  it("POD-17: a node's ranges are used although its Node names addresses of its bridge or of a former plugin's link, or a Node that has not been Ready for five minutes claims them", () => {
    const ranges = "10.244.1.0/24, fd00:244:1::/64";
    const own = ["192.0.2.1", "2001:db8::1"];
    for (const others of [["10.244.1.1"], ["10.244.1.0", "fd00:244:1::1"], ["fd00:244:1::7"]]) {
      for (const addresses of [
        [...own, ...others],
        [...others, ...own],
      ]) {
        assert.equal(rangesOf(node("n1", ranges.split(", "), addresses)).ranges, ranges, addresses.join());
      }
    }
    const lost = node("n2", ["10.244.0.0/16"], ["192.0.2.1"], "2030-01-01T00:00:00Z");
    assert.equal(rangesOf(node("n1", ranges.split(", "), own) + lost).ranges, ranges);
  });

  it("D1: neither another Node's addresses nor its impossible CIDR keep this node from being ready", () => {
    const { ranges, problems } = rangesOf(
      node("n1", ["10.244.1.0/24"], ["192.0.2.1"]) + node("n2", [], ["10.244.1.7"]),
    );
    assert.equal(ranges, "10.244.1.0/24");
    assert.equal(problems, "Node n2: InternalIP 10.244.1.7 is in a pod CIDR of Node n1; it is not used");
    const everything = node("n1", ["10.244.1.0/24"]) + node("n2", ["0.0.0.0/0"]);
    assert.equal(rangesOf(everything).ranges, "10.244.1.0/24");
  });
});
