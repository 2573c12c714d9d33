import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { EVENTS_PATH } from "../../apiserver/events.ts";
import { type RawObject, recordOf } from "../../apiserver/storage.ts";
import { add, del } from "../../lab/cni.ts";
import { MOST_PAIRS } from "../../../policyd/policies/policy_size.ts";
import { ApiNode, SERVICE } from "../../support/daemon/api_node.ts";
import { manifestGrants } from "../../support/daemon/manifest_grants.ts";
import { testLab } from "../../support/suite_lab.ts";

const NAMESPACE: RawObject = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };

/** Returns a NetworkPolicy with more pairs of a peer and a port than are compiled. */
function tooLarge(): RawObject {
  const size = Math.ceil(Math.sqrt(MOST_PAIRS)) + 1;
  const from = Array.from({ length: size }, (_, i) => ({ podSelector: { matchLabels: { app: `a${i}` } } }));
  const ports = Array.from({ length: size }, (_, i) => ({ port: i + 1 }));
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "large", namespace: "shop", uid: "uid-large" },
    spec: { podSelector: {}, policyTypes: ["Ingress"], ingress: [{ from, ports }] },
  };
}

const EXTERNAL: RawObject = { ...SERVICE, spec: { ...recordOf(SERVICE["spec"]), externalIPs: ["198.51.100.7"] } };

const CREATE = { path: "/apis/events.k8s.io/v1/namespaces/shop/events", on: "create" } as const;

describe("Events of a node whose objects come from an API server", function () {
  this.timeout(300_000);
  let node: ApiNode;

  beforeEach(async function () {
    node = new ApiNode(testLab(this, "policyd-events"));
    await node.prepare();
    await node.listen();
    await node.server.apply(NAMESPACE, SERVICE);
  });
  /** Returns the reason and object of each Event, sorted. */
  async function events(): Promise<readonly string[]> {
    const { objects = [] } = await node.server.tell({ type: "read", path: EVENTS_PATH });
    return objects
      .map(({ reason, regarding }) => {
        const { kind, name } = recordOf(regarding);
        return [reason, kind, name].join(" ");
      })
      .sort();
  }

  /** Returns the answers to requests for Events so far. */
  async function creates(): Promise<readonly (number | undefined)[]> {
    const { asked = [] } = await node.server.tell({ type: "asked" });
    return asked.filter(({ verb }) => verb === "create").map(({ status }) => status);
  }

  async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
    for (let left = 600; !(await holds()); left--) {
      if (left === 0)
        assert.fail(`${what}: ${(await events()).join(", ")}: ${(await creates()).join(", ")}\n${node.daemon.log()}`);
      await pause(50);
    }
  }

  const BOTH = ["ExternalIPsServed Service web", "PolicyNotInForce NetworkPolicy large"];

  it("EVENT-02: an Event for the administrator is written once, not again after a new list, and a restarted daemon finds it there", async () => {
    await node.server.apply(tooLarge(), EXTERNAL);
    node.start();
    await node.untilSynced();
    await until(async () => (await events()).length >= 2, "two Events");
    assert.deepEqual(await events(), BOTH);
    const { objects = [] } = await node.server.tell({ type: "read", path: EVENTS_PATH });
    const policy = objects.find(({ reason }) => reason === "PolicyNotInForce");
    assert.deepEqual([recordOf(policy?.["regarding"])["uid"], policy?.["reportingInstance"]], ["uid-large", "node1"]);
    assert.match(String(policy?.["note"]), /^NetworkPolicy shop\/large: ingress: \d+ pairs .* split it into several$/);
    // All lists are read again, and each object counts as changed.
    await node.server.tell({ type: "compact" });
    await node.server.tell({ type: "strike", fault: { type: "error", status: 410 } });
    await node.server.apply({ ...NAMESPACE, metadata: { name: "other" } });
    await node.daemon.statusWhen(
      ({ objects: known }) => known["Namespace"] === 2,
      "the daemon follows the server again",
    );
    assert.deepEqual(await creates(), [201, 201]);
    await node.daemon.kill("SIGTERM");
    node.start();
    await node.untilSynced();
    await until(async () => (await creates()).length >= 4, "the Events are written again");
    assert.deepEqual(await creates(), [201, 201, 409, 409]);
    assert.doesNotMatch(node.daemon.log(), /Kubernetes Event/);
  });

  it("STATUS-05: failing attachments cause one Event of the Node, which names the reason and the way out", async () => {
    node.start();
    await node.untilSynced();
    const { wired, lab } = node;
    const ranges = [[{ subnet: "10.244.1.0/30" }]];
    const tiny = { ...node.overrides(), ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges } };
    const holder = lab.pod("holder");
    assert.equal(add(wired, holder, tiny).error, undefined);
    assert.equal(add(wired, lab.pod("a"), tiny).error?.code, 102);
    await until(async () => (await events()).length > 0, "an Event");
    assert.equal(add(wired, lab.pod("b"), tiny).error?.code, 102);
    await pause(6000);
    assert.deepEqual(await events(), ["AttachmentsFail Node node1"]);
    const { objects = [] } = await node.server.tell({ type: "read", path: EVENTS_PATH });
    assert.match(
      String(objects[0]?.["note"]),
      /^pods cannot be attached to network drawbridge: its range has no free address: move pods .*no IP addresses available/,
    );
    assert.equal(del(wired, holder, tiny).error, undefined);
    assert.equal(add(wired, lab.pod("c"), tiny).error, undefined);
    await node.daemon.statusWhen(({ problemCount }) => problemCount === 0, "over", 30);
    assert.deepEqual(await creates(), [201]);
  });

  it("EVENT-02: without the right to write Events the daemon says so once, and everything else works", async () => {
    await node.server.apply(tooLarge(), EXTERNAL);
    await node.server.tell({
      type: "features",
      features: { grants: { ...manifestGrants(), "events.events.k8s.io": [] } },
    });
    node.start();
    await node.untilSynced();
    await until(async () => (await creates()).length > 0, "an attempt");
    await node.attachPods();
    await node.untilAnswered("first");
    await node.server.apply({ ...EXTERNAL, metadata: { name: "another", namespace: "shop" } });
    await node.daemon.statusWhen(({ objects }) => objects["Service"] === 2, "another Service");
    await until(async () => Promise.resolve(/another/.test(node.daemon.log())), "it is in the log");
    assert.deepEqual(await creates(), [403]);
    assert.equal(node.daemon.log().match(/Kubernetes Events may not be written/g)?.length, 1, node.daemon.log());
    assert.deepEqual(await events(), []);
  });

  it("EVENT-02: Events are written in the end after errors, refusals and resets, and a hanging request does not delay SIGTERM", async () => {
    const faults = [
      { type: "status", status: 500 },
      { type: "reset" },
      { type: "status", status: 429, retryAfter: "1" },
    ] as const;
    await node.server.tell({ type: "plan", faults: faults.map((fault) => ({ ...CREATE, count: 1, fault })) });
    await node.server.apply(tooLarge(), EXTERNAL);
    node.start();
    await node.untilSynced();
    await until(async () => (await events()).length >= 2, "two Events");
    assert.deepEqual(await events(), BOTH);
    assert.deepEqual(await creates(), [500, undefined, 429, 201, 201]);
    await node.server.tell({ type: "plan", faults: [{ ...CREATE, count: 1, fault: { type: "hang" } }] });
    await node.server.apply({ ...EXTERNAL, metadata: { name: "another", namespace: "shop" } });
    await until(async () => (await creates()).length >= 6, "a request that hangs");
    assert.deepEqual(await node.daemon.kill("SIGTERM"), { code: 0, signal: null });
    assert.doesNotMatch(node.daemon.log(), /did not stop in time/);
  });
});
