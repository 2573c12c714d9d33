import { enter } from "../node/processes.ts";
import type { RunningCluster } from "../state.ts";

/** Throws unless every node routes the other nodes' pods into a VXLAN link. */
export function checkTunnel({ nodes }: RunningCluster): void {
  for (const { name, first } of nodes) {
    const link = /^\d+: (?<link>[^:@\s]+)/m.exec(enter("node", first, ["ip", "link", "show", "type", "vxlan"]))
      ?.groups?.["link"];
    if (link === undefined) throw new Error(`${name} has no VXLAN link`);
    for (const family of ["-4", "-6"]) {
      const routes = enter("node", first, ["ip", family, "route", "show", "proto", "107", "dev", link]);
      if (routes.trim() === "") throw new Error(`${name} has no ${family} route by ${link}`);
    }
  }
}
