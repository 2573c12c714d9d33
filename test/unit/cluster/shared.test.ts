import assert from "node:assert/strict";
import { OVERLAY_SUITES } from "../../cluster/overlays/suites.ts";
import { runShared, shareClusters } from "../../cluster/suites/shared.ts";
import { type Suite, SUITES } from "../../cluster/suites/suites.ts";

function suite(name: string, traits: Pick<Suite, "isBeside"> = {}): Suite {
  const settings = { nodes: 2, firstFamily: 4, isDualStack: true, containerd: 1 } as const;
  return { name, runner: "conformance", settings, ...traits };
}

/** Runs suites, some of which end later or fail. @returns the order in which they began and ended */
async function recorded(suites: readonly Suite[], fail: readonly string[] = []): Promise<readonly string[]> {
  const events: string[] = [];
  const run = async ({ name, isBeside }: Suite): Promise<void> => {
    events.push(`${name} begins`);
    for (let turn = 0; turn < (isBeside === true ? 20 : 2); turn++) await Promise.resolve();
    events.push(`${name} ends`);
    if (fail.includes(name)) throw new Error(name);
  };
  await runShared(suites, run).catch((error: unknown) => events.push(String(error)));
  return events;
}

describe("test/cluster/suites/shared", () => {
  it("suites with the same settings share a cluster, and each other installation has one of its own", () => {
    const groups = shareClusters([...SUITES, ...OVERLAY_SUITES]);
    const ownInstallation = [...SUITES, ...OVERLAY_SUITES].filter(({ install }) => install !== undefined);
    assert.equal(groups.length, 2 + ownInstallation.length);
    for (const group of groups) {
      assert.equal(new Set(group.map(({ settings }) => JSON.stringify(settings))).size, 1);
      assert.ok(group.length === 1 || group.every(({ install }) => install === undefined));
    }
    assert.deepEqual(
      groups.flat().map(({ name }) => name),
      [...SUITES, ...OVERLAY_SUITES].map(({ name }) => name),
    );
  });

  it("suites run one after the other, except one that runs beside them", async () => {
    const suites = [suite("a", { isBeside: true }), suite("b"), suite("c")];
    const expected = ["a begins", "b begins", "b ends", "c begins", "c ends", "a ends"];
    assert.deepEqual(await recorded(suites), expected);
  });

  it("an error ends the run after the suites that have begun, and is thrown", async () => {
    const suites = [suite("a", { isBeside: true }), suite("b"), suite("c")];
    assert.deepEqual(await recorded(suites, ["b"]), ["a begins", "b begins", "b ends", "a ends", "Error: b"]);
    assert.deepEqual((await recorded(suites, ["a"])).at(-1), "Error: a");
  });
});
