import { isBeside, isOurs, RULE_PRIORITY } from "../../../policyd/routes/own_routes.ts";
import { isOurTable, OUR_TABLES } from "../../../policyd/checks/our_tables.ts";
import { attachedPods } from "./attached.ts";
import { files, flows, state } from "./files.ts";
import type { Inventory } from "./inventory.ts";
import { links } from "./links.ts";
import type { Kept, Plan, Removal } from "./removal.ts";
import { settings } from "./settings.ts";
import { shortList } from "../../../objects/printable.ts";

/** A plan with notes for people. */
export interface CleanupPlan extends Plan {
  /** The pods that a runtime cannot delete without the retained things. */
  readonly pods: readonly string[];
  readonly notes: readonly string[];
}

/** The number of pods that a message names. */
const NAMED = 5;

/**
 * Returns what to remove so that nothing of Drawbridge is left on a node, and what stays. The network configuration is
 * first, so that no runtime attaches another pod. The records that say what is ours are last, so that a cleanup can be
 * repeated.
 *
 * While pods attached by Drawbridge exist, everything by which a runtime deletes them stays: the executables, a list
 * that attaches nothing, and the records (UNINSTALL-03). A cleanup after the last pod is gone removes these.
 *
 * @param withPods also takes pods' links down and removes the bridge: running pods lose their network
 */
export function cleanupPlan(inventory: Inventory, withPods: boolean): CleanupPlan {
  const pods = attachedPods(inventory);
  const hasPods = pods.length > 0;
  const linkPlan = links(inventory, withPods);
  const removedLinks = linkPlan.removals.flatMap((removal) => (removal.kind === "link" ? removal.name : []));
  const parts = [
    files(inventory, hasPods),
    tables(inventory),
    routes(inventory),
    linkPlan,
    settings(inventory, hasPods && !withPods, removedLinks),
    flows(inventory),
    state(inventory, hasPods),
  ];
  return {
    removals: parts.flatMap(({ removals }) => removals),
    kept: parts.flatMap(({ kept }) => kept),
    pods,
    notes: podNotes(pods),
  };
}

function podNotes(pods: readonly string[]): readonly string[] {
  if (pods.length === 0) return [];
  return [`delete or recreate the pods that Drawbridge has attached, then run this again: ${podList(pods)}`];
}

/** Returns the names of some pods, and the number of the others. */
export function podList(pods: readonly string[]): string {
  return shortList(pods, NAMED);
}

function tables({ tables: all }: Inventory): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  for (const reference of OUR_TABLES) {
    const table = all.find(({ family, name }) => family === reference.family && name === reference.name);
    if (table === undefined) continue;
    if (isOurTable(table)) removals.push({ kind: "table", table: reference, isOwned: table.isOwned });
    else
      kept.push({ what: `table ${reference.family} ${reference.name}`, why: "its comment is not one of Drawbridge's" });
  }
  return { removals, kept };
}

/** Plans for the routes and for what lets other bridges' pods reach ours (policyd/coexistence/). */
function routes({ routes: all, rules, proxies, links: present }: Inventory): Plan {
  return {
    removals: [
      ...rules.filter(({ priority }) => priority === RULE_PRIORITY).map((rule): Removal => ({ kind: "rule", rule })),
      ...all.filter((route) => isOurs(route) || isBeside(route)).map((route): Removal => ({ kind: "route", route })),
      ...proxies.map((proxy): Removal => {
        const link = present.find(({ index }) => index === proxy.index)?.name ?? `link ${proxy.index}`;
        return { kind: "proxy", proxy, link };
      }),
    ],
    kept: [],
  };
}
