import assert from "node:assert/strict";
import { Api } from "../../apiserver/api.ts";
import { NODE_STATUS, NODES_PATH, STRATEGIC_MERGE, withStatus } from "../../apiserver/node_status.ts";
import { FakeClock } from "../../support/fake_clock.ts";
import { availablePatch } from "../../../policyd/network_condition/patch.ts";

const READY = { type: "Ready", status: "True", reason: "KubeletReady" };
const UNAVAILABLE = { type: "NetworkUnavailable", status: "True", reason: "NoRouteCreated", extra: 1 };
const NODE = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "node1", resourceVersion: "7" },
  spec: { podCIDR: "10.244.1.0/24" },
  status: { phase: "Running", conditions: [READY, UNAVAILABLE], images: ["a", "b"] },
};

/** Applies a patch. @returns the answer, and the stored objects after it */
function patched(api: Api, path: string, body: string, headers: Readonly<Record<string, string>> = {}) {
  let status = 0;
  let text = "";
  const answer = {
    head: (code: number) => void (status = code),
    write: (more: string) => void (text += more),
    end: () => {},
    reset: () => {},
  };
  api.patch(path, { "content-type": STRATEGIC_MERGE, ...headers }, body, answer);
  return { status, text, stored: api.storage.list(NODES_PATH) };
}

describe("test/apiserver/node_status", () => {
  it("a patch merges conditions by type, replaces other lists, removes by null, and changes nothing else of the object", () => {
    const patch = {
      metadata: { name: "other" },
      spec: { unschedulable: true },
      status: {
        phase: null,
        images: ["c"],
        conditions: [
          { type: "NetworkUnavailable", status: "False" },
          { type: "New", status: "True" },
        ],
      },
    };
    assert.deepEqual(withStatus(NODE, patch), {
      ...NODE,
      status: {
        conditions: [{ type: "New", status: "True" }, READY, { ...UNAVAILABLE, status: "False" }],
        images: ["c"],
      },
    });
    assert.equal(
      withStatus(NODE, { status: { conditions: [READY] } }),
      NODE,
      "a patch without a change keeps the object",
    );
  });

  it("an accepted patch makes a new version, and one that is forbidden, for a missing Node or invalid is refused", () => {
    const api = new Api(new FakeClock());
    api.apply([NODE]);
    const { path, body } = availablePatch("node1", 0);
    const before = api.storage.version;
    api.features.grants = { nodes: ["list", "watch", "patch"] };
    assert.match(
      patched(api, path, body).text,
      /nodes \\"node1\\" is forbidden: cannot patch resource \\"nodes\/status\\"/,
    );
    api.features.grants = { [NODE_STATUS]: ["patch"] };
    assert.equal(patched(api, path, body, { "content-type": "application/json" }).status, 415);
    assert.equal(patched(api, availablePatch("node2", 0).path, body).status, 404);
    assert.equal(patched(api, NODES_PATH, body).status, 404);
    assert.equal(patched(api, path, '{"status":{"conditions":[{"status":"False"}]}}').status, 500);
    assert.equal(api.storage.version, before);
    const { status, text, stored } = patched(api, path, body);
    assert.deepEqual([status, JSON.parse(text)], [200, stored[0]]);
    assert.equal(api.storage.version, before + 1);
    assert.equal(patched(api, path, body).status, 200);
    assert.equal(api.storage.version, before + 1, "the same patch again changes nothing");
    assert.deepEqual(
      api.asked.map(({ verb }) => verb),
      Array<string>(7).fill("patch"),
    );
  });
});
