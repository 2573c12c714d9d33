import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type ApiResponse } from "../../../../../cli/input/cluster/object_input.ts";
import { listAll } from "../../../../../cli/input/cluster/list.ts";
import { type Resource, RESOURCES } from "../../../../../cli/input/cluster/resources.ts";
import { answer, FakeCluster, type Fault, listOf, SERVER, statusOf } from "../../../../support/daemon/fake_cluster.ts";

const POLICIES = resourceOf("NetworkPolicy");
const CLUSTER_POLICIES = resourceOf("ClusterNetworkPolicy");
const FIVE = ["a", "b", "c", "d", "e"].map((name) => ({
  kind: "NetworkPolicy",
  apiVersion: "networking.k8s.io/v1",
  metadata: { name, namespace: "shop" },
}));

function resourceOf(kind: string): Resource {
  const found = RESOURCES.find((one) => one.kind === kind);
  assert.ok(found);
  return found;
}

/** Lists objects from a server with this fault. @returns the server, and the object names or the error's message */
async function list(
  fault: Fault,
  resource = POLICIES,
): Promise<{ readonly server: FakeCluster; readonly names: unknown; readonly message: string }> {
  const server = new FakeCluster(FIVE, fault);
  const nameOf = (object: unknown): string => (object as (typeof FIVE)[number]).metadata.name;
  try {
    const names = await listAll(server, resource, nameOf, (time) => server.sleep(time));
    return { server, names, message: "" };
  } catch (error) {
    assert.ok(error instanceof Error && "code" in error && error.code === "ERR_INPUT", String(error));
    return { server, names: undefined, message: error.message };
  }
}

describe("lists of an API server", () => {
  it("CLUSTER-01: a list is read page by page, and each page names the next", async () => {
    const { server, names } = await list(() => undefined);
    assert.deepEqual(names, ["a", "b", "c", "d", "e"]);
    const path = "/apis/networking.k8s.io/v1/networkpolicies?limit=500";
    assert.deepEqual(server.asked, [path, `${path}&continue=2`, `${path}&continue=4`]);
  });

  it("CLUSTER-02: a list that expires is read again once from the start, and nothing of the first read remains", async () => {
    const { server, names } = await list((_, count) => (count === 2 ? statusOf(410, "expired") : undefined));
    assert.deepEqual(names, ["a", "b", "c", "d", "e"]);
    assert.equal(server.asked.length, 6);
    assert.doesNotMatch(server.asked[3] ?? "", /continue/);
  });

  it("CLUSTER-02: a list that expires again is an error", async () => {
    const expiring: Fault = (path) => (path.includes("continue") ? statusOf(410, "too old") : undefined);
    const { server, names, message } = await list(expiring);
    assert.deepEqual([names, server.asked.length], [undefined, 4]);
    assert.equal(
      message,
      `${SERVER}: list networkpolicies.networking.k8s.io: 410, the list expired twice while it was read (too old); try again`,
    );
  });

  const whole = JSON.stringify(listOf("NetworkPolicy", "networking.k8s.io/v1", FIVE));
  for (const [what, body, words] of [
    ["that ends in the middle", whole.slice(0, -20), /line 1: the text ends inside an object/],
    ["of another kind", JSON.stringify(listOf("Pod", "v1", [])), /PodList of v1; expected NetworkPolicyList/],
    ["of another version", JSON.stringify(listOf("NetworkPolicy", "networking.k8s.io/v2", [])), /expected Netw/],
    ["that is a web page", "<html>log in</html>", /line 1: text outside of an object/],
    ["that is empty", "", /something else; expected NetworkPolicyList/],
    ["that is not a list", '{"kind":"NetworkPolicy","apiVersion":"networking.k8s.io/v1"}', /something else; expected/],
    ["with items twice", whole.replace(/\}$/, `,"items":[{"metadata":{"name":"f"}}]}`), /items: expected one list/],
    ["with more text after it", `${whole}${whole}`, /more than one value; expected one list/],
    ["with items that are not JSON", whole.replace('"shop"', "shop"), /line 1: .*token/],
    ["with a page that is not text", whole.replace('"7"', '"7","continue":5'), /metadata.continue: expected a text/],
  ] as const) {
    it(`CLUSTER-02: an answer ${what} is an error`, async () => {
      const response: ApiResponse = { status: 200, retryAfter: undefined, body: [Buffer.from(body)] };
      const { names, message } = await list(() => response);
      assert.equal(names, undefined);
      assert.match(message, words);
      assert.match(message, /^https:\/\/cluster\.test:6443: list networkpolicies\.networking\.k8s\.io: /);
    });
  }

  it("CLUSTER-02: a list without an end is an error after 2000 pages", async () => {
    const { server, message } = await list(() => answer(200, listOf("NetworkPolicy", "networking.k8s.io/v1", [], "x")));
    assert.match(message, /more than 2000 pages; expected a list that ends/);
    assert.equal(server.asked.length, 2000);
  });

  it("CLUSTER-02: the same page is requested again after the time that a busy server asks for", async () => {
    const busy: Readonly<Record<number, ApiResponse>> = {
      1: statusOf(429, "slow down", "3"),
      2: statusOf(503, "starting", "2"),
      3: statusOf(429, "slow down"),
      4: statusOf(429, "slow down", "Wed, 21 Oct 2026 07:28:00 GMT"),
    };
    const { server, names } = await list((_, count) => busy[count]);
    assert.deepEqual(names, ["a", "b", "c", "d", "e"]);
    assert.deepEqual(server.slept, [3000, 2000, 1000, 1000]);
    assert.equal(new Set(server.asked.slice(1, 6)).size, 1);
  });

  it("CLUSTER-02: a busy server is asked again at most five times, after at most half a minute each", async () => {
    const { server, message } = await list(() => statusOf(429, "slow down", "86400"));
    assert.deepEqual(server.slept, [30_000, 30_000, 30_000, 30_000, 30_000]);
    assert.match(message, /429, the server has too much to do \(slow down\); try again later/);
  });

  it("CNP-13: ClusterNetworkPolicies are read once, in the newest version that the server has", async () => {
    const policy = { kind: "ClusterNetworkPolicy", metadata: { name: "a" } };
    for (const [served, asked] of [
      [["v1beta1", "v1alpha2"], ["v1beta1"]],
      [["v1beta1"], ["v1beta1"]],
      [["v1alpha2"], ["v1beta1", "v1alpha2"]],
    ] as const) {
      const fault: Fault = (path) => (served.some((one) => path.includes(one)) ? undefined : statusOf(404, "none"));
      const server = new FakeCluster([{ ...policy, apiVersion: `policy.networking.k8s.io/${served[0]}` }], fault);
      const kinds = await listAll(
        server,
        CLUSTER_POLICIES,
        (object) => object,
        () => Promise.resolve(),
      );
      const apiVersion = `policy.networking.k8s.io/${asked.at(-1)}`;
      assert.deepEqual(kinds, [{ ...policy, apiVersion }]);
      assert.deepEqual(
        server.asked.map((path) => path.split("/")[3]),
        asked,
      );
    }
  });

  it("CLUSTER-04: any other missing list is an error, also one that disappears while it is read", async () => {
    const { message } = await list(() => statusOf(404, "page not found"));
    assert.match(message, /404, there is no such list \(page not found\); expected the address of a Kubernetes API/);
    const next = answer(200, listOf("ClusterNetworkPolicy", "policy.networking.k8s.io/v1beta1", [], "x"));
    const gone = await list((_, count) => (count === 0 ? next : statusOf(404, "gone")), CLUSTER_POLICIES);
    assert.match(gone.message, /list clusternetworkpolicies\.policy\.networking\.k8s\.io: 404/);
  });

  it("CLUSTER-05: the error of a forbidden list names the missing permission, also for an optional kind", async () => {
    const { message } = await list(() => statusOf(403, 'User "eve" cannot list\nnetworkpolicies'));
    assert.equal(
      message,
      `${SERVER}: list networkpolicies.networking.k8s.io: 403, this user may not do it (User "eve" cannot list\\u{a}` +
        "networkpolicies); expected the verbs get and list on it in all namespaces: " +
        "ask kubectl auth can-i list networkpolicies.networking.k8s.io -A",
    );
    const optional = await list(() => statusOf(403, "no"), CLUSTER_POLICIES);
    assert.match(optional.message, /403, this user may not do it \(no\)/);
    const unknown = await list(() => statusOf(401, "Unauthorized"));
    assert.match(unknown.message, /401, the server does not know who asks \(Unauthorized\); log in again/);
    const odd = await list(() => ({ status: 302, retryAfter: undefined, body: [] }));
    assert.match(odd.message, /status 302; expected 200; see whether kubectl get networkpolicies.* -A works/);
  });
});
