/** As many endpoints as one of these has a map in which every number drawn is an endpoint's. */
export const EXACT_MODULI = [1, 2, 3, 4] as const;

const DRAWN_MODULI = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384] as const;
/** More pods than a node has (the kubelet's default is 110). */
const MOST_LOCAL = 512;

/**
 * The sizes of the maps in which a number drawn may be nobody's: the next power of two holds one element for each
 * endpoint, so at least every second number is someone's, each endpoint has the same chance, and a change of one endpoint
 * is a change of few elements. Who draws nobody draws again.
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
 * How often is drawn. Who then has nobody yet, one in 65,536 at worst, gets the endpoint that {@link drawnModuli}'s
 * Services name for this case: with 500 endpoints its share is larger by less than one percent.
 */
export const DRAWS = 16;

/** The most endpoints a frontend can have. */
export function mostEndpoints(scope: "all" | "local"): number {
  return drawnModuli(scope).at(-1) ?? 0;
}

/** The modulus of the map for so many endpoints, at least one and at most {@link mostEndpoints}. */
export function modulusFor(count: number, scope: "all" | "local"): number {
  const modulus = MODULI[scope].find((candidate) => candidate >= count);
  if (modulus === undefined || count < 1)
    throw new RangeError(`${count} endpoints; expected 1 to ${mostEndpoints(scope)}`);
  return modulus;
}

/** Whether the map of this modulus may hold nobody at a number. */
export function isDrawn(modulus: number): boolean {
  return !EXACT_MODULI.some((exact) => exact === modulus);
}
