let on: number | undefined;
/** By numbers of mutations. An array, since hot loops write to it. */
let reached: boolean[] = [];

/** Whether a mutation is switched on. While none is, its place counts as reached. */
export function isOn(mutation: number): boolean {
  if (on === undefined) reached[mutation] = true;
  return mutation === on;
}

/** Switches one mutation on, or none. */
export function switchOn(mutation: number | undefined): void {
  on = mutation;
}

/** Returns the mutations whose places were reached since the last call. */
export function takeReached(): readonly number[] {
  const taken = [...reached.keys()].filter((mutation) => reached[mutation]);
  reached = [];
  return taken;
}
