/** In which state of br_netfilter a node is, and whether pods' packets go around its bridge. */
export interface Way {
  readonly bridgeNetfilter: boolean;
  readonly bypassBridge: boolean;
  readonly title: string;
  /** For names. */
  readonly short: string;
}

/** All there are. */
export const WAYS: readonly Way[] = [true, false].flatMap((bridgeNetfilter) =>
  [false, true].map((bypassBridge) => ({
    bridgeNetfilter,
    bypassBridge,
    title: `br_netfilter ${bridgeNetfilter ? "on" : "off"}, ${bypassBridge ? "around the bridge" : "through the bridge"}`,
    short: `${bridgeNetfilter ? "on" : "off"}-${bypassBridge ? "around" : "through"}`,
  })),
);
