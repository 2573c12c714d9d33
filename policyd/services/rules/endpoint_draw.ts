/** For these numbers of endpoints there is a map in which every drawn number belongs to an endpoint. */
export const EXACT_MODULI = [1, 2, 3, 4] as const;

const DRAWN_MODULI = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384] as const;
/** More pods than a node has (the kubelet's default is 110). */
const MOST_LOCAL = 512;

/**
 * Returns the sizes of the maps in which a drawn number may be unused. The next power of two holds one element for each
 * endpoint, so at least every second number is used, each endpoint has the same probability, and a change of one
 * endpoint changes few elements. A packet that draws an unused number draws again.
 */
export function drawnModuli(scope: "all" | "local"): readonly number[] {
  return DRAWN[scope];
}

const DRAWN = { all: DRAWN_MODULI, local: DRAWN_MODULI.filter((modulus) => modulus <= MOST_LOCAL) } as const;
const MODULI: Readonly<Record<"all" | "local", readonly number[]>> = {
  all: [...EXACT_MODULI, ...DRAWN.all],
  local: [...EXACT_MODULI, ...DRAWN.local],
};

/**
 * The number of draws. A packet that still has no endpoint, one in 65,536 at worst, gets the endpoint in the map
 * `restMap` of endpoint_maps.ts: with 500 endpoints, the share of this endpoint is larger by less than one percent.
 */
export const DRAWS = 16;

/** Returns the largest number of endpoints that a frontend can have. */
export function mostEndpoints(scope: "all" | "local"): number {
  return drawnModuli(scope).at(-1) ?? 0;
}

/** Returns the modulus of the map for this many endpoints, 1 to {@link mostEndpoints}; else throws a RangeError. */
export function modulusFor(count: number, scope: "all" | "local"): number {
  const modulus = MODULI[scope].find((candidate) => candidate >= count);
  if (modulus === undefined || count < 1)
    throw new RangeError(`${count} endpoints; expected 1 to ${mostEndpoints(scope)}`);
  return modulus;
}

/** Returns whether the map of this modulus may have unused numbers. */
export function isDrawn(modulus: number): boolean {
  return !EXACT_MODULI.some((exact) => exact === modulus);
}
