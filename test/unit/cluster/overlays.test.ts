import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { CONFIGURATIONS, OVERLAY_SUITES } from "../../cluster/overlays/suites.ts";
import { PROJECT } from "../../cluster/place.ts";
import { SUITES } from "../../cluster/suites/suites.ts";

/** Overlays and components of other distributions, whose nodes this cluster does not have. */
const ELSEWHERE = ["components/var-lib-kubelet-kubeconfig", "overlays/k0s", "overlays/k3s", "overlays/rke2"];

describe("test/cluster/overlays", () => {
  it("every overlay and component that a cluster of kubeadm can have has a suite", () => {
    const present = ["components", "overlays"].flatMap((kind) =>
      readdirSync(path.join(PROJECT, "manifests", kind)).map((name) => `${kind}/${name}`),
    );
    const covered = new Set(CONFIGURATIONS.flatMap(({ manifests }) => manifests));
    assert.deepEqual(
      present.filter((name) => !covered.has(name)),
      ELSEWHERE,
    );
    for (const name of covered) assert.ok(existsSync(path.join(PROJECT, "manifests", name)), name);
  });

  it("overlay suites have unique names and one common group", () => {
    const names = [...SUITES, ...OVERLAY_SUITES].map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    assert.deepEqual([...new Set(OVERLAY_SUITES.map(({ group }) => group))], ["overlays"]);
  });
});
