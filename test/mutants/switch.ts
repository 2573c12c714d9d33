let on: number | undefined;
let reached = new Set<number>();

/** Whether a mutation is switched on. While none is, its place counts as reached. */
export function isOn(mutation: number): boolean {
  if (on === undefined) reached.add(mutation);
  return mutation === on;
}

/** Switches one mutation on, or none. */
export function switchOn(mutation: number | undefined): void {
  on = mutation;
}

/** Returns the mutations whose places were reached since the last call. */
export function takeReached(): readonly number[] {
  const taken = [...reached];
  reached = new Set();
  return taken;
}
