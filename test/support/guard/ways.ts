/** A combination of two settings: whether br_netfilter is on, and whether pods' packets go around the bridge. */
export interface Way {
  readonly bridgeNetfilter: boolean;
  readonly bypassBridge: boolean;
  readonly title: string;
  /** A short text for names. */
  readonly short: string;
}

/** All combinations, where the two settings together change the result. */
export const WAYS: readonly Way[] = [true, false].flatMap((bridgeNetfilter) =>
  [false, true].map((bypassBridge) => ({
    bridgeNetfilter,
    bypassBridge,
    title: `br_netfilter ${bridgeNetfilter ? "on" : "off"}, ${bypassBridge ? "around the bridge" : "through the bridge"}`,
    short: `${bridgeNetfilter ? "on" : "off"}-${bypassBridge ? "around" : "through"}`,
  })),
);

/** Two ways that differ in both settings: between them each setting has each of its values. */
export const OPPOSITE_WAYS: readonly Way[] = WAYS.filter(
  ({ bridgeNetfilter, bypassBridge }) => bridgeNetfilter !== bypassBridge,
);
