import type { Suite } from "./suites.ts";

/**
 * Divides suites into those that share a cluster: suites with the same settings and an installation as in
 * docs/guides/kubeadm.md. Any other installation has its own cluster.
 *
 * @returns the groups, and the suites in each, in the given order
 */
export function shareClusters(suites: readonly Suite[]): readonly (readonly Suite[])[] {
  const groups = new Map<string, Suite[]>();
  for (const suite of suites) {
    const { name, settings, install } = suite;
    const key = JSON.stringify([settings, install === undefined ? "" : name]);
    groups.set(key, [...(groups.get(key) ?? []), suite]);
  }
  return [...groups.values()];
}

/**
 * Runs suites on one cluster in order. The next suite does not wait for one that runs beside others.
 *
 * @param run runs one suite
 * @throws the first error of a suite, once all that have begun have ended
 */
export async function runShared(suites: readonly Suite[], run: (suite: Suite) => Promise<void>): Promise<void> {
  const beside: Promise<void>[] = [];
  const errors: unknown[] = [];
  const tryRun = async (suite: Suite): Promise<void> => {
    try {
      await run(suite);
    } catch (error) {
      errors.push(error);
    }
  };
  for (const suite of suites) {
    if (errors.length > 0) break;
    const ended = tryRun(suite);
    if (suite.isBeside === true) beside.push(ended);
    else await ended;
  }
  await Promise.all(beside);
  if (errors.length > 0) throw errors[0];
}
