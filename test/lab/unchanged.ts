import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Lab, LabNode } from "./lab.ts";

/** The longest wait for the work that a daemon still does after a test. */
const PATIENCE_MILLISECONDS = 20_000;
const INTERVAL_MILLISECONDS = 50;
/** Matches the files of attachments, of addresses and of a daemon's objects; the allocator's own files stay. */
const KEPT = /(^|\/)(attachments|networks|objects)\/(?!.*(lock|last_reserved_ip\.\d+)$)/;

/**
 * Checks after each test of the suite that it has left its lab as it found it, so that a suite can make its lab once.
 * Call it after the suite's own `afterEach`, because hooks run in their order.
 *
 * @param lab returns the lab, which exists before the first test
 */
export function leavesUnchanged(lab: () => Lab): void {
  let before: readonly string[] = [];
  beforeEach(() => {
    before = stateOf(lab());
  });
  afterEach(async () => {
    const end = performance.now() + PATIENCE_MILLISECONDS;
    let now = stateOf(lab());
    while (now.join() !== before.join() && performance.now() < end) {
      await pause(INTERVAL_MILLISECONDS);
      now = stateOf(lab());
    }
    assert.deepEqual(now, before, "the test leaves its lab as it was before");
  });
}

/** Returns the state of a lab, one line for each namespace, link, table, neighbour and file. */
function stateOf({ namespaces, scratch }: Lab): readonly string[] {
  const nodes = namespaces.filter((namespace) => namespace instanceof LabNode);
  const files = readdirSync(scratch, { recursive: true, encoding: "utf8" });
  return [
    ...namespaces.map(({ name }) => `namespace ${name}`),
    ...nodes.flatMap((node) => [
      ...node.links().map(({ name }) => `${node.name}: link ${name}`),
      ...lines(node.exec("nft", ["list", "tables"])).map((line) => `${node.name}: ${line}`),
      ...lines(node.exec("ip", ["neigh", "show", "nud", "permanent"])).map((line) => `${node.name}: ${line}`),
    ]),
    ...files.filter((name) => KEPT.test(name)).flatMap((name) => fileIn(scratch, name)),
  ].toSorted();
}

function fileIn(directory: string, name: string): readonly string[] {
  try {
    const whole = path.join(directory, name);
    return statSync(whole).isFile() ? [`${name}: ${readFileSync(whole, "utf8")}`] : [];
  } catch {
    // The daemon has removed it since it was listed.
    return [];
  }
}

function lines(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
