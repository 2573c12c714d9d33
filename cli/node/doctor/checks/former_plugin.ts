import { formatAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import { MAIN_TABLE } from "../../../../kernel/route/route.ts";
import { POLICY_TABLE } from "../../../../attachment/our_tables.ts";
import { isBeside } from "../../../../policyd/routes/own_routes.ts";
import { foreignPorts, portWords } from "../../../../policyd/coexistence/foreign_ports.ts";
import {
  besideChange,
  besideEntries,
  type BesideRoute,
  neighbouringBridges,
} from "../../../../policyd/coexistence/neighbouring_bridges.ts";
import { seen, type Remark } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";
import { shortList } from "../../../../objects/printable.ts";

/** The most routes in a finding. */
const MOST_NAMED = 3;

export const formerPlugin: Check = {
  id: "former-plugin",
  summary: "No pods of another plugin are on our bridge, and those on a bridge beside it and ours reach each other.",
  needs: ["links", "addresses", "routes", "records", "bootId"],
  examine: (facts) => [...portRemarks(facts), ...besideRemarks(facts)],
};

/** Reports others' ports on our bridge, as the daemon does before it takes the bridge over (FOREIGN-02). */
function portRemarks(facts: NodeFacts): readonly Remark[] {
  const { bridge } = facts.place;
  const ports = foreignPorts(seen(facts.links) ?? [], bridge, seen(facts.records)?.records ?? []);
  if (ports.length === 0) return [];
  const isPoliced = facts.expected.tables.some(({ name }) => name === POLICY_TABLE.name);
  return [
    {
      severity: isPoliced ? "error" : "info",
      what: `the bridge ${bridge} has ${portWords(ports)}`,
      why: "with policies their pods get no packets through, and a daemon that starts does not take the bridge over",
      way: "name another bridge, such as the default drawbridge0, in policyd's bridge, or delete the pods that another plugin has attached there",
    },
  ];
}

/** Reports other bridges with the pods' network, and our routes of metric 106 for them (FOREIGN-03). */
function besideRemarks(facts: NodeFacts): readonly Remark[] {
  const links = seen(facts.links) ?? [];
  const { bridge } = facts.place;
  const pods = (seen(facts.records)?.records ?? [])
    .filter((record) => record.bridge === bridge && record.bootId === seen(facts.bootId))
    .flatMap((record) => record.addresses.map(({ address }) => address));
  const bridges = neighbouringBridges(links, seen(facts.addresses) ?? [], bridge);
  const desired = besideEntries(pods, bridges);
  const own = links.find(({ name }) => name === bridge)?.index;
  const found = (seen(facts.routes) ?? []).flatMap((route): readonly BesideRoute[] => {
    const { destination, table, outputInterface } = route;
    if (destination === undefined || table !== MAIN_TABLE || !isBeside(route)) return [];
    return [{ destination, index: outputInterface === own ? undefined : outputInterface }];
  });
  const { added, removed } = besideChange({ routes: desired.routes, proxies: [] }, { routes: found, proxies: [] });
  const isWhole = added.routes.length === 0;
  const shared = bridges.filter(({ index }) => isWhole && desired.proxies.some((proxy) => proxy.index === index));
  return [
    ...shared.map(({ name, networks }): Remark => ({
      severity: "info",
      what: `the bridge ${name} of another plugin has the network of our pods: ${networks.map((one) => `${formatAddress(one.address)}/${one.prefixLength}`).join(", ")}`,
      why: "its pods keep their network until they are recreated, and policyd has them and ours reach each other",
      way: `recreate its pods, then remove it: ip link delete ${name}`,
    })),
    ...routeRemark(added.routes, {
      what: "routes of metric 106 are missing",
      why: "pods of ours and of the other plugin do not reach each other",
      way: "policyd makes them while it runs: look whether it does, and which program deletes them (ip monitor route)",
    }),
    ...routeRemark(removed.routes, {
      what: "routes of metric 106 are left over",
      why: "they lead to addresses that no pod of ours has, or to a bridge that is not needed",
      way: "policyd removes them while it runs; without it: ip route flush proto 107 metric 106, and the same with ip -6",
    }),
  ];
}

function routeRemark(routes: readonly BesideRoute[], text: Omit<Remark, "severity">): readonly Remark[] {
  if (routes.length === 0) return [];
  const destinations = shortList(routes, MOST_NAMED, ({ destination }) => formatCidr(destination));
  return [{ severity: "warning", ...text, what: `${text.what}: ${destinations}` }];
}
