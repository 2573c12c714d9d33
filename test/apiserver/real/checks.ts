import assert from "node:assert/strict";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { HttpApiWriter } from "../../../policyd/api_write/http_api_writer.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import { judge } from "../../../objects/gate/gate.ts";
import type { ClusterObject, Kind } from "../../../objects/model.ts";
import { availablePatch } from "../../../policyd/network_condition/network_condition.ts";
import { ApiSource } from "../../../policyd/sources/api/api_source.ts";
import type { ApiConnection } from "../../../policyd/sources/api/connection/connection.ts";
import { HttpConnection } from "../../../policyd/sources/api/connection/http_connection.ts";
import { member } from "../../../policyd/sources/api/json_member.ts";
import { RESOURCES } from "../../../policyd/sources/api/resources.ts";
import { ServiceAccount } from "../../../policyd/sources/api/connection/service_account.ts";
import { INSTALL, manifestObjects, overlayRules } from "../../support/daemon/manifest_grants.ts";
import { RecordingSink } from "../../support/daemon/recording_sink.ts";
import { withConditions } from "../node_status.ts";
import { sample } from "../objects.ts";
import { type RawObject, recordOf } from "../storage.ts";
import { RealCluster } from "./cluster.ts";
import { until } from "../../support/until.ts";

const ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts";
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PLURALS = new Map(RESOURCES.map(({ kind, path: list }) => [kind as string, list]));

/** A CRD of ClusterNetworkPolicies that takes anything, in the versions of network-policy-api 0.3.0. */
const CRD: RawObject = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: {
    name: "clusternetworkpolicies.policy.networking.k8s.io",
    // The server protects names of the upstream project.
    annotations: { "api-approved.kubernetes.io": "unapproved, a test" },
  },
  spec: {
    group: "policy.networking.k8s.io",
    scope: "Cluster",
    names: { plural: "clusternetworkpolicies", kind: "ClusterNetworkPolicy" },
    versions: versionsServed("v1beta1", "v1alpha2"),
  },
};

/** Returns the versions: the newest is stored, and the others are served with the same content. */
function versionsServed(...served: readonly string[]): readonly object[] {
  return ["v1beta1", "v1alpha2"].map((name) => ({
    name,
    served: served.includes(name),
    storage: name === "v1beta1",
    schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
  }));
}

/** Returns the path of an object's list in its namespace. */
function pathOf(object: RawObject): string {
  const list = PLURALS.get(String(object["kind"])) ?? "";
  const namespace = member(object, "metadata", "namespace");
  if (typeof namespace !== "string") return list;
  const slash = list.lastIndexOf("/");
  return `${list.slice(0, slash)}/namespaces/${namespace}${list.slice(slash)}`;
}

const nameOf = (object: RawObject): string => String(member(object, "metadata", "name"));

/** Returns a sample that a real server accepts: containers have images, and the address of a Service is free. */
function real(kind: Kind, index: number): RawObject {
  const object = sample(kind, index);
  if (kind === "Service") {
    const address = `10.96.9.${index}`;
    const ports = [{ port: 80, protocol: "TCP" }];
    return { ...object, spec: { clusterIP: address, clusterIPs: [address], ports } };
  }
  if (kind !== "Pod") return object;
  const containers = [{ name: "c", image: "none", ports: [{ name: "http", containerPort: 80 }] }];
  return { ...object, spec: { nodeName: "node-1", containers } };
}

describe("the real kube-apiserver", function () {
  this.timeout(180_000);
  let directory = "";
  let cluster: RealCluster;
  let source: ApiSource;
  let sink: RecordingSink;
  /** The requests since the test began, and the beginning of each answer. */
  let asked: { readonly path: string; status: number; text: string }[] = [];

  before(async () => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-kube-"));
    const executables = {
      etcd: process.env["ETCD"] ?? "etcd",
      "kube-apiserver": process.env["KUBE_APISERVER"] ?? "kube-apiserver",
    };
    cluster = new RealCluster({ directory: `${directory}/cluster`, address: "127.0.0.1", executables });
    cluster.startStorage();
    await cluster.start();
    const version = await cluster.must("GET", "/version");
    const kubernetes = `${String(member(version, "major"))}.${String(member(version, "minor"))}`;
    console.log(`      Kubernetes ${kubernetes} on etcd ${await cluster.storageVersion()}`);
    writeFileSync(path.join(directory, "ca.crt"), cluster.authority.certificate);
  });
  after(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  beforeEach(() => {
    asked = [];
    sink = new RecordingSink();
    const account = new ServiceAccount(directory, (file) => readFileSync(file, "utf8"));
    const http = new HttpConnection(() => Promise.resolve().then(() => account.credentials(cluster.url)));
    source = new ApiSource({ connection: recorded(http), clock: realClock, random: () => Math.random() });
  });
  afterEach(() => {
    source.stop();
  });

  function recorded(connection: ApiConnection): ApiConnection {
    return {
      get name() {
        return connection.name;
      },
      get: (url, handler) => {
        const entry = { path: url, status: 0, text: "" };
        asked.push(entry);
        return connection.get(url, {
          ...handler,
          answered: (status, retryAfter) => {
            entry.status = status;
            handler.answered(status, retryAfter);
          },
          data: (chunk) => {
            if (entry.text.length < 4096) entry.text += new TextDecoder().decode(chunk);
            handler.data(chunk);
          },
        });
      },
    };
  }

  const create = (object: RawObject): Promise<unknown> => cluster.must("POST", pathOf(object), object);
  const remove = (object: RawObject): Promise<unknown> =>
    cluster.must("DELETE", `${pathOf(object)}/${nameOf(object)}?gracePeriodSeconds=0`);
  const patch = (object: RawObject, change: object): Promise<unknown> =>
    cluster.must("PATCH", `${pathOf(object)}/${nameOf(object)}`, change);

  /** Returns the model from lists that an administrator reads, after the same gate. */
  async function direct(): Promise<ReadonlyMap<string, ClusterObject>> {
    const objects = new Map<string, ClusterObject>();
    for (const { path: list, kind, apiVersion, labelSelector, isOptional } of RESOURCES) {
      const query = labelSelector === undefined ? "" : `?labelSelector=${encodeURIComponent(labelSelector)}`;
      const { status, body } = await cluster.ask("GET", `${list}${query}`);
      if (isOptional && status === 404) continue;
      assert.equal(status, 200, list);
      const items = member(body, "items");
      assert.ok(Array.isArray(items));
      for (const item of items as readonly RawObject[]) {
        const verdict = judge({ ...item, kind, apiVersion });
        assert.equal(verdict.type, "accepted", JSON.stringify(verdict));
        if (verdict.type === "accepted") objects.set(`${kind} ${verdict.object.key}`, verdict.object);
      }
    }
    return objects;
  }

  async function untilEqual(): Promise<void> {
    const model = new Map(await direct());
    await until(() => isDeepStrictEqual(sink.objects, model), "what is told is what the server holds", 60_000);
  }

  it("a token that it does not know is refused with 401, and a new one in the file is used", async () => {
    writeFileSync(path.join(directory, "token"), "nobody's");
    source.start(sink);
    await until(() => source.problems().some((text) => /: 401 .*the server does not know who asks/.test(text)), "401");
    await cluster.must("POST", ACCOUNT, { metadata: { name: "drawbridge" } });
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { expirationSeconds: 3600 } };
    const reply = await cluster.must("POST", `${ACCOUNT}/drawbridge/token`, request);
    const token = member(reply, "status", "token");
    assert.ok(typeof token === "string");
    writeFileSync(path.join(directory, "token"), token);
    await until(() => source.problems().some((text) => /: 403 .*expected the verbs list and watch/.test(text)), "403");
  });

  it("what manifests/install.yaml grants is all that is needed, and what is missing is told", async () => {
    source.start(sink);
    await until(() => source.problems().length >= RESOURCES.length, "403 for every kind");
    assert.equal(sink.isSynced, false);
    const objects = manifestObjects(readFileSync(INSTALL, "utf8"));
    for (const [kind, list] of [
      ["ClusterRole", "clusterroles"],
      ["ClusterRoleBinding", "clusterrolebindings"],
    ] as const) {
      const found = objects.filter((object) => object["kind"] === kind);
      assert.equal(found.length, 1);
      await cluster.must("POST", `/apis/rbac.authorization.k8s.io/v1/${list}`, found[0]);
    }
    await until(() => sink.isSynced, "synced", 60_000);
    await untilEqual();
    assert.deepEqual(source.problems(), []);
  });

  it("every kind is listed, and followed as it changes", async () => {
    const kinds = RESOURCES.map(({ kind }) => kind).filter((kind) => kind !== "ClusterNetworkPolicy");
    await create({ apiVersion: "v1", kind: "Namespace", metadata: { name: "before" } });
    for (const kind of kinds) await create(real(kind, 1));
    source.start(sink);
    await until(() => sink.isSynced, "synced", 60_000);
    await untilEqual();
    const streams = asked.filter(({ path: url }) => url.includes("sendInitialEvents=true"));
    const served = streams.filter(({ status, text }) => status === 200 && !text.includes('"type":"ERROR"'));
    const lists = asked.filter(({ status, path: url }) => status === 200 && url.includes("limit="));
    console.log(`      read by watch-list: ${served.length} kinds, in pages: ${lists.length}`);
    for (const kind of kinds) await create(real(kind, 2));
    for (const kind of kinds) await patch(real(kind, 1), { metadata: { labels: { changed: "yes" } } });
    await untilEqual();
    for (const kind of kinds) if (kind !== "Namespace" && kind !== "ServiceCIDR") await remove(real(kind, 1));
    await untilEqual();
    assert.deepEqual(source.problems(), []);
  });

  it("a Node's condition is patched as manifests/overlays/network-unavailable grants it, and merged as our own server has it", async () => {
    const unavailable = { type: "NetworkUnavailable", status: "True", reason: "NoRouteCreated", message: "no route" };
    const ready = { type: "Ready", status: "True", reason: "KubeletReady", message: "it is ready" };
    const times = { lastHeartbeatTime: "2026-11-22T03:00:00Z", lastTransitionTime: "2026-11-22T03:00:00Z" };
    const node = {
      ...sample("Node", 7),
      status: { conditions: [unavailable, { ...ready, ...times }], phase: "Running" },
    };
    const created = recordOf(await create(node));
    const token = new ServiceAccount(directory, (file) => readFileSync(file, "utf8"));
    const writer = new HttpApiWriter(() => Promise.resolve().then(() => token.credentials(cluster.url)), realClock);
    const write = availablePatch(nameOf(node), Date.now());
    const refused = await writer.write(write);
    assert.ok(refused.type === "forbidden", JSON.stringify(refused));
    assert.match(refused.reason, /cannot patch resource "nodes\/status"/);
    const role = manifestObjects(readFileSync(INSTALL, "utf8")).find(({ kind }) => kind === "ClusterRole") ?? {};
    const rules = overlayRules("network-unavailable");
    await cluster.must("PATCH", `/apis/rbac.authorization.k8s.io/v1/clusterroles/${nameOf(role)}`, { rules });
    const written = async (body: object): Promise<number | undefined> =>
      (await writer.write({ ...write, body: JSON.stringify(body) })).status;
    for (let left = 100; (await written({})) === 403; left--) {
      assert.ok(left > 0, "the right is there");
      await pause(100);
    }
    const before = member(created, "metadata", "resourceVersion");
    assert.equal(await written(recordOf(JSON.parse(write.body))), 200);
    const expected = withConditions(created, recordOf(JSON.parse(write.body)));
    const { metadata, status, spec } = recordOf(await cluster.must("GET", `${pathOf(node)}/${nameOf(node)}`));
    assert.deepEqual({ status, spec }, { status: expected?.["status"], spec: expected?.["spec"] });
    assert.notEqual(recordOf(metadata)["resourceVersion"], before);
    const whole = await writer.write({ ...write, path: `${pathOf(node)}/${nameOf(node)}` });
    assert.equal(whole.type, "forbidden", "the Node itself is not to be written");
    const gone = await writer.write(availablePatch("nobody", Date.now()));
    assert.equal(gone.status, 404, JSON.stringify(gone));
  });

  it("ClusterNetworkPolicies come and go with their CRD", async () => {
    source.start(sink);
    await until(() => sink.isSynced, "synced", 60_000);
    await cluster.must("POST", CRDS, CRD);
    const policy = sample("ClusterNetworkPolicy", 1);
    for (let left = 100; (await cluster.ask("POST", pathOf(policy), policy)).status !== 201; left--) {
      assert.ok(left > 0, "the CRD is established");
      await pause(100);
    }
    const isThere = (): boolean => sink.objects.has("ClusterNetworkPolicy clusternetworkpolicy-1");
    await until(isThere, "the policy is in force within 5 s", 5000);
    const reported = sink.reported.length;
    for (const versions of [versionsServed("v1alpha2"), versionsServed("v1beta1", "v1alpha2")]) {
      const before = sink.notices.length;
      await cluster.must("PATCH", `${CRDS}/${nameOf(CRD)}`, { spec: { versions } });
      await until(() => sink.notices.length > before, "the other version is followed", 30_000);
    }
    console.log(`      ${sink.notices.join("\n      ")}`);
    assert.deepEqual(sink.reported.slice(reported), [], "a change of the version leaves no gap");
    await cluster.must("DELETE", `${CRDS}/${nameOf(CRD)}`);
    await until(() => !sink.objects.has("ClusterNetworkPolicy clusternetworkpolicy-1"), "it is gone", 60_000);
    await untilEqual();
  });

  it("a server that was killed is caught up with; what etcd has forgotten is read anew after 410", async () => {
    source.start(sink);
    await until(() => sink.isSynced, "synced", 60_000);
    const old = real("Pod", 3);
    await create(old);
    await untilEqual();
    await cluster.kill();
    await until(() => source.problems().length > 0, "away");
    await cluster.compact();
    await pause(3000);
    asked = [];
    await cluster.start();
    const ready = performance.now();
    await remove(old);
    await create(real("Pod", 4));
    await untilEqual();
    console.log(`      caught up ${(performance.now() - ready).toFixed(0)} ms after it was ready`);
    const expired = asked.filter(({ status, text }) => status === 410 || text.includes('"code":410'));
    console.log(`      requests that were answered with 410: ${expired.length}`);
    assert.ok(expired.length > 0);
    await until(() => source.problems().length === 0, "no problem", 60_000);
  });
});
