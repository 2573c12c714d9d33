import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { ClusterObject } from "../../../../../objects/model.ts";
import { compileAll, formatClaims, readScenario } from "../../../../support/services/scenario.ts";

/** Reads a file of the scenarios; its first line says what it is about. */
function readFile(name: string): string {
  return readFileSync(new URL(`scenarios/${name}`, import.meta.url), "utf8");
}

/** The elements of all Services on node1 as text. */
function textOf(objects: readonly ClusterObject[]): string {
  return formatClaims([...compileAll(objects, "node1").values()].flatMap(({ claims }) => claims));
}

function check(scenario: string): void {
  const objects = readScenario(readFile(`${scenario}.yaml`));
  assert.equal(textOf(objects), readFile(`${scenario}.nft`));
  const compiled = [...compileAll(objects, "node1").values()];
  assert.deepEqual(
    compiled.flatMap(({ problems }) => problems),
    [],
  );
}

describe("services/compile: the elements of Services", () => {
  it("SVC-02 SVC-03 SVC-05 SVC-06 SVC-07 EPS-10 EPS-08 DS-06: ports match by name and get numbers from slices", () =>
    check("cluster_ip"));

  it("SVC-04 NODE-10 LB-01 LB-12 ETP-01 LB-06 XIP-01 XIP-02 EPS-03 SVC-21 SVC-23: all kinds of frontends", () =>
    check("external"));

  it("ETP-02 ETP-03 ETP-08 ITP-01 ITP-02: policy Local with and without an endpoint on this node", () =>
    check("local_policy"));

  it("NE-01 NE-04 EPS-04 DS-09: a Service without endpoints refuses, in each family separately", () => check("none"));

  it("SA-01 SA-02 SA-05 SA-07: all frontends of a port share one number", () => check("affinity"));

  it("HL-01 EN-01 NOSEL-01 NOSEL-03 SVC-05 EPS-05 NOSEL-06 EPS-03 EPS-14: ignored objects leave no element", () =>
    check("nothing"));
});
