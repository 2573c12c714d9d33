import { type Check, seen } from "../problems/check.ts";

export const forwardPolicy: Check = {
  id: "foreign-drops",
  summary: "No chain of another program drops all that pods send through the node.",
  needs: ["forwardDrops"],
  examine: ({ forwardDrops, bridge }) =>
    (seen(forwardDrops) ?? []).map(({ family, table, chain }) => {
      const tool = family === "ip6" ? "ip6tables" : "iptables";
      const isOfIptables = family !== "inet" && table === "filter" && chain === "FORWARD";
      return {
        severity: "error",
        what: `chain ${family} ${table} ${chain} drops what pods send through the node (policy drop)`,
        why: "no rule of it accepts new connections of pods, so they reach nothing outside of the node",
        way: isOfIptables
          ? `${tool} -P FORWARD ACCEPT, or ${["-i", "-o"].map((way) => `${tool} -I FORWARD ${way} ${bridge} -j ACCEPT`).join("; ")}`
          : ["iifname", "oifname"]
              .map((way) => `nft insert rule ${family} ${table} ${chain} ${way} ${bridge} accept`)
              .join("; "),
      };
    }),
};
