import assert from "node:assert/strict";
import { judge } from "../../../../../objects/gate/gate.ts";
import { RESOURCES } from "../../../../../policyd/sources/api/resources.ts";
import { CLUSTER_POLICY_PATHS, type Definition, DEFINITIONS_PATH } from "../../../../apiserver/definitions.ts";
import { sample } from "../../../../apiserver/objects.ts";
import { type Grants, manifestGrants } from "../../../../support/daemon/manifest_grants.ts";
import { randomFrom } from "../../../../support/random.ts";
import { isProbe, World } from "./world.ts";

const [NEWER = "", OLDER = ""] = CLUSTER_POLICY_PATHS;
const BOTH: Definition = { versions: ["v1beta1", "v1alpha2"] };
const ONLY_OLDER: Definition = { versions: ["v1alpha2"] };
const ONLY_NEWER: Definition = { versions: ["v1beta1"] };
const NONE: Definition = { versions: [] };
const POLICY = "ClusterNetworkPolicy clusternetworkpolicy-1";
/** The grants of older ClusterRoles, which have no right to the definition. */
const ofOlderRole = (): Grants => Object.fromEntries(RESOURCES.map(({ name }) => [name, ["list", "watch"]]));

/** A world whose server has one ClusterNetworkPolicy. */
function worldWith(definition: Definition, grants: Grants = manifestGrants()): World {
  const world = new World();
  world.api.features.grants = grants;
  world.api.define(definition);
  if (definition.versions.length > 0) world.api.apply([sample("ClusterNetworkPolicy", 1)]);
  world.start();
  world.clock.pass(1000);
  assert.ok(world.sink.isSynced);
  return world;
}

/** The paths of the lists and watches of ClusterNetworkPolicies that are requested during the action. */
function pathsAsked(world: World, action: () => void): readonly string[] {
  const isOne = (line: string): boolean => CLUSTER_POLICY_PATHS.some((path) => line.endsWith(path));
  return world
    .asked(action)
    .filter(isOne)
    .map((line) => line.split(" ")[1] ?? "");
}

/** The log lines about ClusterNetworkPolicies. */
const notices = ({ sink }: World): readonly string[] =>
  sink.notices.filter((notice) => notice.startsWith("ClusterNetworkPolicy: "));

/** Asserts that the policy is never removed during the action. */
function assertNoGap(world: World, action: () => void): void {
  const reported = world.sink.reported.length;
  action();
  assert.deepEqual(
    world.sink.reported.slice(reported).filter((line) => line === `delete ${POLICY}`),
    [],
  );
  assert.ok(world.sink.objects.has(POLICY));
}

describe("policyd/sources/api: versions of ClusterNetworkPolicy", () => {
  it("CNP-13: v1beta1 and v1alpha2 give the same object, and any other version is refused with both names", () => {
    const of = (version: string) =>
      judge({ ...sample("ClusterNetworkPolicy", 1), apiVersion: `policy.networking.k8s.io/${version}` });
    assert.equal(of("v1beta1").type, "accepted");
    assert.deepEqual(of("v1alpha2"), of("v1beta1"));
    for (const version of ["v1", "v1beta2", "v1alpha1", "v1beta1/x", ""]) {
      const verdict = of(version);
      assert.ok(verdict.type === "refused", version);
      assert.match(
        verdict.problem,
        /expected policy\.networking\.k8s\.io\/v1beta1 or policy\.networking\.k8s\.io\/v1alpha2$/,
      );
    }
  });

  for (const [name, grants] of [
    ["with the ClusterRole of the manifest", manifestGrants()],
    ["with an older ClusterRole", ofOlderRole()],
  ] as const) {
    for (const [definition, path] of [
      [BOTH, NEWER],
      [ONLY_NEWER, NEWER],
      [ONLY_OLDER, OLDER],
    ] as const) {
      it(`CNP-13: of the versions ${definition.versions.join(" and ")} the newest is followed, ${name}`, () => {
        const world = worldWith(definition, grants);
        world.assertEqual();
        world.api.apply([sample("ClusterNetworkPolicy", 2), sample("ClusterNetworkPolicy", 1, 7)]);
        world.clock.pass(100);
        world.assertEqual();
        assert.equal(world.sink.objects.size, 2);
        const later = pathsAsked(world, () => world.clock.pass(3_600_000));
        assert.deepEqual([...new Set(later)], [path]);
        assert.deepEqual(world.source.problems(), []);
        const version = path === NEWER ? "v1beta1" : "v1alpha2";
        assert.deepEqual(notices(world), [
          `ClusterNetworkPolicy: the API server serves it as policy.networking.k8s.io/${version}; what it has is in force`,
        ]);
      });
    }

    it(`CNP-13: the source changes to the other version without a gap when the server stops serving one, ${name}`, () => {
      for (const [before, after, path] of [
        [BOTH, ONLY_OLDER, OLDER],
        [ONLY_OLDER, ONLY_NEWER, NEWER],
        [ONLY_NEWER, ONLY_OLDER, OLDER],
      ] as const) {
        for (const lag of [undefined, 700]) {
          const world = worldWith(before, grants);
          assertNoGap(world, () => {
            world.api.define({ ...after, ...(lag === undefined ? {} : { lag }) });
            world.clock.pass(10_000);
          });
          world.api.apply([sample("ClusterNetworkPolicy", 2)]);
          world.clock.pass(100);
          assert.equal(world.sink.objects.size, 2, "later policies are followed");
          const later = pathsAsked(world, () => world.clock.pass(3_600_000));
          assert.deepEqual([...new Set(later)], [path]);
          assert.deepEqual(world.source.problems(), []);
        }
      }
    });
  }

  it("CNP-13: known policies stay until the list in the other version is read whole, and then only differences change", () => {
    const world = worldWith(ONLY_OLDER);
    world.api.apply([sample("ClusterNetworkPolicy", 2)]);
    world.clock.pass(100);
    const reported = world.sink.reported.length;
    world.api.plan({ on: "watch", path: NEWER, count: 3, fault: { type: "truncate", isReset: true } });
    world.api.strike({ type: "silence" }, OLDER);
    world.api.define(ONLY_NEWER);
    world.api.apply([{ ...sample("ClusterNetworkPolicy", 2), isGone: true }, sample("ClusterNetworkPolicy", 3)]);
    world.clock.pass(50);
    assert.deepEqual(world.sink.reported.slice(reported), [], "half a list changes nothing");
    world.clock.pass(60_000);
    assert.deepEqual(world.sink.reported.slice(reported).sort(), [
      "delete ClusterNetworkPolicy clusternetworkpolicy-2",
      "set ClusterNetworkPolicy clusternetworkpolicy-3",
    ]);
    world.assertEqual();
  });

  it("CNP-17: policies of a CRD that appears are in force within 5 s, also where the server serves it late", () => {
    for (const lag of [undefined, 0, 400, 2000, 4000]) {
      for (const definition of [BOTH, ONLY_OLDER, ONLY_NEWER]) {
        const world = worldWith(NONE);
        world.clock.pass(randomFrom(lag ?? 1)() * 600_000);
        assert.equal(world.sink.objects.size, 0);
        world.api.define({ ...definition, ...(lag === undefined ? {} : { lag }) });
        world.api.apply([sample("ClusterNetworkPolicy", 1)]);
        world.clock.pass(lag === undefined ? 100 : 4900);
        assert.ok(world.sink.objects.has(POLICY), `lag ${lag}`);
        assert.deepEqual(world.source.problems(), []);
        assert.equal(notices(world).length, 1);
      }
    }
  });

  it("CNP-16: a server that answers 404 for an existing CRD removes no policy, and the 404 is reported until it ends", () => {
    const world = worldWith(BOTH);
    assertNoGap(world, () => {
      for (const path of CLUSTER_POLICY_PATHS) {
        world.api.plan({ on: "any", path, count: 1000, fault: { type: "status", status: 404 } });
      }
      world.api.strike({ type: "close" }, NEWER);
      const asked = pathsAsked(world, () => world.clock.pass(600_000));
      assert.ok(asked.length > 50 && asked.length < 150, `${asked.length} requests in 10 minutes`);
    });
    assert.match(world.source.problems().join(), /clusternetworkpolicies\.policy\.networking\.k8s\.io: 404/);
    world.api.heal();
    world.api.apply([sample("ClusterNetworkPolicy", 2)]);
    world.clock.pass(15_000);
    world.assertEqual();
    assert.deepEqual(world.source.problems(), []);
  });

  it("CNP-16: policies of a CRD with only unknown versions stay with a problem, and a daemon that starts then has none", () => {
    const world = worldWith(BOTH);
    assertNoGap(world, () => {
      world.api.define({ versions: ["v1"] });
      world.clock.pass(3_600_000);
    });
    const problem =
      /served in no version that this daemon knows; expected policy\.networking\.k8s\.io\/v1beta1 or .*v1alpha2/;
    assert.match(world.source.problems().join(), problem);
    assert.equal(world.sink.sourceProblems.length, 1);
    world.api.apply([sample("ClusterNetworkPolicy", 2)]);
    world.api.define(ONLY_NEWER);
    world.clock.pass(1000);
    assert.deepEqual(world.source.problems(), []);
    world.assertEqual();
    assert.equal(world.sink.objects.size, 2, "a known version is read at once");
    world.api.define({ versions: ["v1"] });
    world.clock.pass(10_000);
    world.api.define(NONE);
    world.clock.pass(1000);
    assert.equal(world.sink.objects.size, 0, "policies go with the CRD, also from an unknown version");
    const other = new World();
    other.api.define({ versions: ["v1"] });
    other.start();
    other.clock.pass(10_000);
    assert.ok(other.sink.isSynced, "the sync does not wait for a CRD without known versions");
    assert.match(other.source.problems().join(), problem);
  });

  it("CNP-17: policies go at once with their CRD, the log says so, and those of a new CRD come", () => {
    const world = worldWith(BOTH);
    for (let round = 0; round < 3; round++) {
      world.api.define(NONE);
      world.clock.pass(100);
      assert.equal(world.sink.objects.size, 0);
      assert.match(notices(world).at(-1) ?? "", /^ClusterNetworkPolicy: the API server does not serve it any more/);
      world.api.define(BOTH);
      world.api.apply([sample("ClusterNetworkPolicy", 1)]);
      world.clock.pass(1000);
      assert.equal(world.sink.objects.size, 1);
    }
    assert.deepEqual(world.source.problems(), []);
    assert.equal(notices(world).length, 7);
  });

  it("CNP-16: without the right to the CRD one line is logged, no problem is reported, and the CRD is requested once a minute", () => {
    const world = worldWith(NONE, ofOlderRole());
    const ofDefinitions = (): number =>
      world.asked(() => world.clock.pass(600_000)).filter((line) => line.endsWith(DEFINITIONS_PATH)).length;
    const count = ofDefinitions();
    assert.ok(count >= 9 && count <= 21, `${count}`);
    assert.deepEqual(world.source.problems(), []);
    const lines = world.sink.notices.filter((notice) => notice.includes("no right to list and watch"));
    assert.equal(lines.length, 1, world.sink.notices.join("\n"));
    assert.match(lines[0] ?? "", /^customresourcedefinitions\/clusternetworkpolicies\..*apply the ClusterRole/);
    world.api.define(BOTH);
    world.api.apply([sample("ClusterNetworkPolicy", 1)]);
    world.clock.pass(61_000);
    world.assertEqual();
    assert.equal(world.api.asked.filter(isProbe).length, 0, "no probe is sent, since the server is well");
    world.api.features.grants = manifestGrants();
    world.clock.pass(61_000);
    world.api.define(NONE);
    world.clock.pass(1000);
    world.api.define({ ...BOTH, lag: 1000 });
    world.api.apply([sample("ClusterNetworkPolicy", 1)]);
    world.clock.pass(4000);
    world.assertEqual();
    assert.equal(world.sink.objects.size, 1, "with the right the CRD is followed");
  });

  it("CNP-16: with an invalid or unavailable definition the policies follow from their own list", () => {
    for (const definition of [{}, { spec: { versions: 7 } }, { spec: {}, status: { conditions: [null] } }]) {
      const world = worldWith(BOTH);
      assertNoGap(world, () => {
        const metadata = { name: "clusternetworkpolicies.policy.networking.k8s.io" };
        const { apiVersion, kind } = { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" };
        world.api.apply([{ apiVersion, kind, metadata, ...definition }]);
        world.clock.pass(600_000);
      });
      world.assertEqual();
    }
    for (const status of [404, 500, 503]) {
      const world = new World();
      world.api.plan({ on: "any", path: DEFINITIONS_PATH, count: 1000, fault: { type: "status", status } });
      world.api.apply([sample("ClusterNetworkPolicy", 1)]);
      world.start();
      world.clock.pass(1000);
      assert.ok(world.sink.isSynced, `${status}`);
      world.assertEqual();
    }
    const silent = new World();
    silent.api.define(NONE);
    silent.api.plan({ on: "any", path: DEFINITIONS_PATH, count: 1000, fault: { type: "hang" } });
    silent.start();
    silent.clock.pass(6000);
    assert.ok(silent.sink.isSynced, "a list of definitions that hangs delays nothing");
  });
});
