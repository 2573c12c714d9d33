import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { Kind } from "../../../objects/model.ts";
import { sample } from "../../apiserver/objects.ts";
import { add, del } from "../../lab/cni.ts";
import { ApiNode, pod, slice } from "../../support/daemon/api_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { randomFrom } from "../../support/random.ts";
import { roundsFor } from "../../support/long_form.ts";

const CHANGES = roundsFor("changes", 2000, 100_000);
/** The number of changes in one message to the API server, and the limit in a second: 100,000 take one minute. */
const BATCH = 200;
const PER_SECOND = 1700;
/** The number of objects of each kind that change. */
const OBJECTS = 500;
const KINDS: readonly Kind[] = ["Pod", "Service", "EndpointSlice", "NetworkPolicy", "Namespace"];

describe("a node whose cluster changes all the time", function () {
  this.timeout(300_000);
  let node: ApiNode;

  beforeEach(async function () {
    node = new ApiNode(testLab(this, "policyd-flood"));
    await node.prepare();
  });
  it(`API-25: during ${CHANGES} changes of objects pods are attached and memory is bounded, and afterwards the model is the server's`, async () => {
    await node.listen();
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    await node.server.apply(
      ...KINDS.flatMap((kind) => Array.from({ length: OBJECTS }, (_, index) => sample(kind, index))),
    );
    await node.daemon.statusWhen(({ objects }) => (objects["Pod"] ?? 0) >= OBJECTS, "all pods");
    const before = residentMegabytes(node.daemon.child.pid);
    const seed = Math.floor(Math.random() * 2 ** 31);
    console.log(`      seed ${seed}`);
    const random = randomFrom(seed);
    const adds: number[] = [];
    const begun = performance.now();
    for (let done = 0; done < CHANGES; done += BATCH) {
      await node.server.apply(...Array.from({ length: BATCH }, () => change(random)));
      if (done % (CHANGES / 5) === 0) adds.push(await attachAndDetach(adds.length));
      const early = (done / PER_SECOND) * 1000 - (performance.now() - begun);
      if (early > 0) await pause(early);
    }
    const seconds = (performance.now() - begun) / 1000;
    await node.server.apply(slice("10.244.1.4"));
    await node.untilAnswered("second");
    const expected: Record<string, number> = {};
    for (const { kind } of (await node.server.model()).values()) expected[kind] = (expected[kind] ?? 0) + 1;
    await node.daemon.statusWhen(
      ({ objects, isSynced }) =>
        isSynced && Object.entries(objects).every(([kind, count]) => count === (expected[kind] ?? 0)),
      `seed ${seed}: ${JSON.stringify(expected)}`,
    );
    const grown = residentMegabytes(node.daemon.child.pid) - before;
    console.log(
      `      ${JSON.stringify({ seconds: Math.round(seconds), adds: adds.map(Math.round), grown: Math.round(grown) })}`,
    );
    // Measured: 51 MB after 10,000 changes and 134 MB after 100,000, most of it the heap's reserve.
    assert.ok(grown < 250, `${grown} MB more than before`);
  });

  function change(random: () => number) {
    const below = (end: number): number => Math.floor(random() * end);
    const object = sample(KINDS[below(KINDS.length)] ?? "Pod", below(OBJECTS), below(1000));
    return random() < 0.1 ? { ...object, isGone: true } : object;
  }

  /** Returns the milliseconds of an ADD. */
  async function attachAndDetach(number: number): Promise<number> {
    const name = `late${number}`;
    await node.server.apply(pod(name, name));
    const namespace = node.lab.pod(name);
    const begun = performance.now();
    assert.equal(add(node.wired, namespace, node.overrides()).error, undefined);
    const milliseconds = performance.now() - begun;
    assert.equal(del(node.wired, namespace, node.overrides()).exitCode, 0);
    return milliseconds;
  }
});

function residentMegabytes(pid: number | undefined): number {
  const text = readFileSync(`/proc/${String(pid)}/status`, "utf8");
  return Number(/^VmRSS:\s+(?<kilobytes>\d+) kB$/m.exec(text)?.groups?.["kilobytes"] ?? Number.NaN) / 1024;
}
