import assert from "node:assert/strict";
import * as fc from "fast-check";
import { podClasses } from "../../../../../objects/semantics/policies/pod_class.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { labelled, networkPolicy } from "../../../../support/policy/manifest.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";
import { manifestsOf, type RawPod } from "../../../../support/policy/raw_cluster.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";
import { countedSeed, roundsFor } from "../../../../support/long_form.ts";

const TRAFFIC = ["80/TCP", "53/UDP", "8080/SCTP", "ICMP"] as const;

describe("objects/semantics/policies: classes of pods", () => {
  it("POL-60: labels that no policy uses do not separate pods", () => {
    const classes = (...policies: readonly object[]) => {
      const pods = podClasses(indexOf([...threeByThree(), ...policies])).map((one) => one.pods.length);
      return pods.toSorted((a, b) => a - b);
    };
    assert.deepEqual(classes(), [3, 3, 3], "of one namespace");
    assert.deepEqual(classes(networkPolicy("x", { podSelector: labelled({ pod: "a" }) })), [1, 1, 1, 3, 3]);
    const block = { ipBlock: { cidr: "10.244.0.0/16", except: ["10.244.1.1/32"] } };
    assert.deepEqual(classes(networkPolicy("y", { ingress: [{ from: [block] }] })), [1, 2, 3, 3]);
  });

  it("POL-60: finished pods are in no class, and those of the host's network are in a class of their node", () => {
    const pod = (name: string, spec: object, phase = "Running") => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec,
      status: { phase },
    });
    const host = { hostNetwork: true, nodeName: "n1" };
    const classes = podClasses(indexOf([pod("a", {}), pod("b", {}, "Failed"), pod("c", host), pod("d", host)]));
    assert.deepEqual(classes, [
      { pods: ["default/a"], isHostNetwork: false },
      { pods: ["default/c", "default/d"], isHostNetwork: true },
    ]);
  });

  it("POL-60: two pods of a class have the same verdicts, from and to every third pod with its own addresses", function () {
    this.timeout(120_000);
    let compared = 0;
    fc.assert(
      fc.property(policyCases, ({ cluster }) => {
        const index = indexOf(manifestsOf({ ...cluster, pods: doubled(cluster.pods) }));
        const classes = podClasses(index).filter(({ isHostNetwork }) => !isHostNetwork);
        const all = classes.flatMap(({ pods }) => pods);
        for (const { pods } of classes) {
          const [first, second] = pods;
          if (second === undefined) continue;
          for (const third of all.filter((key) => key !== first && key !== second)) {
            for (const traffic of TRAFFIC) {
              compared++;
              assert.equal(ask(index, [first, third], traffic).kind, ask(index, [second, third], traffic).kind);
              assert.equal(ask(index, [third, first], traffic).kind, ask(index, [third, second], traffic).kind);
            }
          }
        }
      }),
      { numRuns: roundsFor("random cases", 80, 1000), seed: countedSeed() },
    );
    assert.ok(compared > 100, `only ${compared} comparisons`);
  });
});

/** Every pod a second time, with other addresses of the same networks and an additional label. */
function doubled(pods: readonly RawPod[]): readonly RawPod[] {
  const second = pods.map((pod): RawPod => {
    const podIPs = (pod.status.podIPs ?? []).map(({ ip }) => ({ ip: ip.replace(/5$/, "6") }));
    const metadata = {
      ...pod.metadata,
      name: `${pod.metadata.name}-2`,
      labels: { ...pod.metadata.labels, second: "yes" },
    };
    return { ...pod, metadata, status: { ...pod.status, podIPs } };
  });
  return [...pods, ...second];
}
