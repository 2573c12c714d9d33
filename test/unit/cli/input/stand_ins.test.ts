import assert from "node:assert/strict";
import { readManifests } from "../../../../cli/input/manifests.ts";
import { memoryFiles } from "../../../support/cli/cli.ts";
import { manifest, named, ownedBy, pod } from "../../../support/cli/objects.ts";

const workload = (kind: string, name: string, fields = ""): string => {
  const template = `template: { metadata: { labels: { app: ${name} } }, spec: {} }`;
  const spec = kind === "CronJob" ? `jobTemplate: { spec: { ${template} } }` : template;
  return manifest(kind, named(`a/${name}`), `spec: { ${fields}${spec} }`);
};
const KINDS = ["Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "StatefulSet"];

const podsOf = (...texts: readonly string[]): readonly string[] => {
  const { manifests, problems } = readManifests(memoryFiles({ "a.yaml": texts.join("") }), ["a.yaml"], false);
  assert.deepEqual(problems, []);
  return manifests.map(({ object }) => object.key);
};

describe("stand-in pods of templates", () => {
  it("READ-20: log-0 belongs to the StatefulSet log, also beside a DaemonSet or other workload of that name", () => {
    for (const kind of KINDS.filter((one) => one !== "StatefulSet")) {
      for (const order of [0, 1]) {
        const both = [workload(kind, "log"), workload("StatefulSet", "log")];
        const { manifests } = readManifests(
          memoryFiles({ "a.yaml": (order === 0 ? both : both.toReversed()).join("") }),
          ["a.yaml"],
          false,
        );
        const owners = manifests.flatMap(({ object }) =>
          object.kind === "Pod" && object.key === "a/log-0" ? [object.controller?.kind] : [],
        );
        assert.deepEqual(owners, ["StatefulSet"], kind);
      }
    }
  });

  it("READ-20: a stand-in's name does not depend on the other objects, so two sets of files agree on it", () => {
    const apart = KINDS.flatMap((kind) => podsOf(workload(kind, "log")));
    assert.deepEqual(podsOf(...KINDS.map((kind) => workload(kind, "log"))), apart);
  });

  it("READ-20: a pod with the name of a StatefulSet's pod keeps it, and does not belong to the StatefulSet", () => {
    const bare = manifest("Pod", named("a/log-0"));
    assert.deepEqual(podsOf(workload("StatefulSet", "log"), bare), ["a/log-0", "a/log_statefulset_0", "a/log-1"]);
    assert.deepEqual(podsOf(workload("StatefulSet", "log", "ordinals: { start: 5 }, ")), ["a/log-5", "a/log-6"]);
    const owned = pod("a/log-0", "", { app: "log", metadata: ownedBy("StatefulSet", "log") });
    assert.deepEqual(podsOf(owned, workload("StatefulSet", "log")), ["a/log-0"]);
    assert.deepEqual(podsOf(owned, workload("StatefulSet", "log", "replicas: 2, ")), ["a/log-0", "a/log-1"]);
    assert.deepEqual(
      podsOf(owned, workload("Deployment", "log")),
      ["a/log-0", "a/log_deployment_0", "a/log_deployment_1"],
      "a workload of another kind has no pods yet",
    );
  });

  it("READ-20: one replica, or a parallelism of one, gives one pod; no number and zero count as autoscaled", () => {
    for (const [kind, fields, count] of [
      ["Deployment", "replicas: 1, ", 1],
      ["StatefulSet", "replicas: 1, ", 1],
      ["ReplicaSet", "replicas: 1, ", 1],
      ["ReplicationController", "replicas: 1, ", 1],
      ["Deployment", "replicas: 7, ", 2],
      ["Deployment", "replicas: 0, ", 2],
      ["Deployment", "", 2],
      ["DaemonSet", "", 2],
      ["Job", "", 1],
      ["Job", "parallelism: 3, ", 2],
      ["CronJob", "", 1],
    ] as const) {
      assert.equal(podsOf(workload(kind, "w", fields)).length, count, `${kind} ${fields}`);
    }
  });

  it("READ-20: a written pod takes the place of its workload's stand-ins only with all that the template says, and before it has ended", () => {
    const ports = "{ name: http, containerPort: 80 }";
    const web = (kind: string): string => {
      const template = `template: { metadata: { labels: { app: w, pod-template-hash: h } }, spec: { containers: [{ name: c, ports: [${ports}] }] } }`;
      const spec = kind === "CronJob" ? `jobTemplate: { spec: { ${template} } }` : `replicas: 1, ${template}`;
      return manifest(kind, named("a/w"), `spec: { ${spec} }`);
    };
    const written = (kind: string, more = {}): string =>
      pod("a/p", "", { app: "w", ports, metadata: ownedBy(kind, "w"), ...more });
    const ended = (text: string): string => text.replace("phase: Running", "phase: Succeeded");
    for (const [kind, text, isShown] of [
      ["Deployment", written("Deployment", { labels: "added: by-a-webhook" }), true],
      ["Deployment", written("Deployment", { app: "other" }), false],
      ["Deployment", written("Deployment", { ports: ports.replace("80", "81") }), false],
      ["Deployment", written("Deployment", { spec: "hostNetwork: true" }), false],
      ["Deployment", ended(written("Deployment")), false],
      ["CronJob", ended(written("CronJob")), false],
      ["CronJob", written("CronJob"), true],
      ["Job", ended(written("Job")), true],
      ["Job", ended(written("Job", { app: "other" })), false],
    ] as const) {
      assert.equal(podsOf(web(kind), text).length, isShown ? 1 : 2, text);
    }
  });

  it("READ-20: an Indexed Job stands only for the indexes of which the files hold no pod, running or finished", () => {
    const index = (n: number): string => `batch.kubernetes.io/job-completion-index: "${n}"`;
    const written = pod("a/w-1-abcde", "", { app: "w", labels: index(1), metadata: ownedBy("Job", "w") });
    const job = workload("Job", "w", "completionMode: Indexed, completions: 3, parallelism: 1, ");
    for (const text of [written, written.replace("phase: Running", "phase: Succeeded")]) {
      assert.deepEqual(podsOf(text, job), ["a/w-1-abcde", "a/w_job_0", "a/w_job_2"]);
    }
  });

  it("READ-20: an older ReplicaSet of a Deployment and an ended Job of a CronJob stand for no pods, and others do", () => {
    const owned = (kind: string, owner: string, spec: string, status = ""): string =>
      manifest(
        kind,
        named("a/w", ownedBy(owner, "o")),
        `spec: { ${spec}template: { spec: {} } }, status: { conditions: [${status}] }`,
      );
    const ended = "{ type: Complete, status: 'True' }";
    for (const [text, count] of [
      [owned("ReplicaSet", "Deployment", "replicas: 0, "), 0],
      [owned("ReplicaSet", "Deployment", "replicas: 1, "), 1],
      [workload("ReplicaSet", "w", "replicas: 0, "), 2],
      [owned("Deployment", "Revision", "replicas: 0, "), 2],
      [owned("Job", "CronJob", "", ended), 0],
      [owned("Job", "CronJob", "", ended.replace("True", "False")), 1],
      [owned("Job", "CronJob", "", ended).replace("controller: true", "controller: false"), 1],
    ] as const) {
      assert.equal(podsOf(text).length, count, text);
    }
  });
});
