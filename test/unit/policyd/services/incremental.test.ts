import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { ClusterObject } from "../../../../objects/model.ts";
import { randomFrom } from "../../../support/random.ts";
import { runIncrementally } from "../../../support/services/incremental.ts";
import type { TurnBounds } from "../../../../policyd/services/service_turns.ts";
import { EventNode, TABLES, TABLES_WITHOUT_RULES } from "../../../support/services/random_node.ts";
import { readScenario } from "../../../support/services/scenario.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

const EVENTS = roundsFor("random events", 600, 10_000);

/** Turns so short that most Services take several. */
const SHORT: TurnBounds = { milliseconds: Number.POSITIVE_INFINITY, elements: 3, large: 4 };

describe("policyd/services: incremental changes", () => {
  for (const [what, turn] of [
    ["DP-11: after", {}],
    ["SHARE-10: frontend by frontend, in turns, after", { turn: SHORT }],
  ] as const) {
    it(`${what} ${EVENTS} random events a failing kernel has the same state as after a fresh build`, function () {
      this.timeout(300_000);
      const seed = countedSeed();
      console.log(`      seed ${seed}`);
      const outcome = runIncrementally({
        ...turn,
        events: EVENTS,
        compareEvery: 100,
        random: randomFrom(seed),
        kernel: new FakeNftables(),
        tables: TABLES_WITHOUT_RULES,
        fresh: () => new FakeNftables(),
      });
      console.log(`      ${JSON.stringify(outcome)}`);
      assert.equal(outcome.comparisons, EVENTS / 100);
      assert.ok(
        outcome.faults > EVENTS / 60 && outcome.restarts > 0 && outcome.elements > 100,
        JSON.stringify(outcome),
      );
    });
  }

  it("DP-02 MODE-03: the number of written elements per change does not grow with the number of Services", () => {
    const counts = [10, 100, 1000].map(writesPerChange);
    assert.deepEqual(counts[1], counts[0]);
    assert.deepEqual(counts[2], counts[0]);
    for (const [change, count] of Object.entries(counts[0] ?? {})) assert.ok(count > 0, change);
  });
});

function objectsOf(name: string, clusterIp: string, endpoints: readonly number[]): readonly ClusterObject[] {
  const list = endpoints.map((last) => `{addresses: [10.244.1.${last}], nodeName: n1}`).join();
  return readScenario(`
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: default}
spec: {type: NodePort, clusterIPs: [${clusterIp}], ports: [{port: 80}], sessionAffinity: ClientIP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${name}-1, namespace: default, labels: {kubernetes.io/service-name: ${name}}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [${list}]
`);
}

/** The number of elements in the batches of some changes, in a cluster with this number of Services. */
function writesPerChange(services: number): Readonly<Record<string, number>> {
  const kernel = new FakeNftables();
  const set = (object: ClusterObject) =>
    ({ type: "object", change: { type: "set", kind: object.kind, key: object.key, object } }) as const;
  const known = Array.from({ length: services }, (_, i) =>
    objectsOf(`s${i}`, `10.96.${i >> 8}.${i & 255}`, [10, 11, 12]).map(set),
  ).flat();
  const node = new EventNode(kernel, new FakeClock(), TABLES, known);
  const written = (objects: readonly ClusterObject[], isDeletion = false): number => {
    const before = kernel.commits.length;
    for (const object of objects) {
      const { kind, key } = object;
      node.apply(isDeletion ? { type: "object", change: { type: "delete", kind, key } } : set(object));
    }
    node.settle(0);
    return kernel.commits
      .slice(before)
      .flat()
      .reduce((sum, change) => sum + ("elements" in change ? change.elements.length : 1), 0);
  };
  const counts = {
    "a Service comes": written(objectsOf("new", "10.97.0.1", [10, 11])),
    "an endpoint is replaced": written(objectsOf("s3", "10.96.0.3", [10, 11, 13])),
    "an endpoint comes": written(objectsOf("s3", "10.96.0.3", [10, 11, 12, 13])),
    "the last endpoint goes": written(objectsOf("s4", "10.96.0.4", [])),
    "a Service goes": written(objectsOf("s5", "10.96.0.5", []), true),
  };
  node.stop();
  return counts;
}
