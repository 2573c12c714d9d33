import assert from "node:assert/strict";
import type { PushFlow } from "./push_flow.ts";

/**
 * Asserts for each flow that messages of the server arrive while the client is silent. @throws AssertionError with the
 * names of the others
 */
export async function assertLive(flows: readonly PushFlow[]): Promise<void> {
  const live = await Promise.all(flows.map((flow) => flow.reachesClient()));
  assert.deepEqual(namesOf(flows, live), [], "these flows do not continue");
}

/**
 * Asserts for each flow that nothing arrives in either direction. @throws AssertionError with the names of the others
 */
export async function assertStopped(flows: readonly PushFlow[]): Promise<void> {
  // Messages of the client in between set no label.
  for (const sender of ["server", "client", "server"] as const) {
    const stopped = await Promise.all(flows.map((flow) => flow.isStopped(sender)));
    assert.deepEqual(namesOf(flows, stopped), [], `the ${sender} gets through`);
  }
}

/** Returns the names of the flows with a false outcome. */
function namesOf(flows: readonly PushFlow[], outcomes: readonly boolean[]): readonly string[] {
  return flows.filter((_, index) => outcomes[index] !== true).map(({ name }) => name);
}
