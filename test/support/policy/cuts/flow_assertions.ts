import assert from "node:assert/strict";
import type { PushFlow } from "./push_flow.ts";

/** What the server sends arrives, of each flow, with the client silent. @throws AssertionError with the names of the others */
export async function assertLive(flows: readonly PushFlow[]): Promise<void> {
  const live = await Promise.all(flows.map((flow) => flow.reachesClient()));
  assert.deepEqual(namesOf(flows, live), [], "these do not go on");
}

/** Nothing arrives in either direction, of each flow. @throws AssertionError with the names of the others */
export async function assertStopped(flows: readonly PushFlow[]): Promise<void> {
  // What the client sends in between labels nothing.
  for (const sender of ["server", "client", "server"] as const) {
    const stopped = await Promise.all(flows.map((flow) => flow.isStopped(sender)));
    assert.deepEqual(namesOf(flows, stopped), [], `the ${sender} gets through`);
  }
}

/** Of which it is not so. */
function namesOf(flows: readonly PushFlow[], outcomes: readonly boolean[]): readonly string[] {
  return flows.filter((_, index) => outcomes[index] !== true).map(({ name }) => name);
}
