import type { OriginalSetting } from "../../../attachment/original_settings.ts";
import type { ChangedSetting, Inventory } from "./inventory.ts";
import { dotted, type Kept, type Plan, type Removal } from "./removal.ts";

const TABLE_SIZE = "net/netfilter/nf_conntrack_max";
/** A node that forwards pods' packets needs these with any network add-on. */
const FORWARDING = /^net\/(ipv4\/ip_forward|ipv6\/conf\/all\/forwarding|ipv6\/conf\/[^/]+\/accept_ra)$/;
const REDIRECTS = "net/ipv4/conf/all/send_redirects";

/**
 * Plans to restore the values that kernel settings had before Drawbridge changed them (UNINSTALL-01).
 *
 * A setting stays where somebody else has changed it since. Forwarding stays on: other programs may rely on it by now.
 *
 * @param hasConnectedPods whether pods continue to use our bridge
 * @param removedLinks the names of links whose settings disappear with them
 */
export function settings(
  { settings: all, connections }: Inventory,
  hasConnectedPods: boolean,
  removedLinks: readonly string[],
): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  for (const { path, setting, present } of all) {
    if (removedLinks.some((name) => setting?.key.split("/").at(-2) === name)) continue;
    if (setting === undefined) {
      kept.push({ what: path, why: "it is not a record of this release: a newer one knows what it says" });
      continue;
    }
    if (present === undefined || present === setting.original) continue;
    const why = reasonToKeep({ path, setting, present }, setting, connections, hasConnectedPods);
    if (why !== undefined) kept.push({ what: dotted(setting.key), why });
    else removals.push({ kind: "setting", key: setting.key, value: setting.original, record: path });
  }
  return { removals, kept };
}

function reasonToKeep(
  { present }: ChangedSetting,
  { key, original, ours }: OriginalSetting,
  connections: number | undefined,
  hasConnectedPods: boolean,
): string | undefined {
  if (present === undefined || !ours.includes(present)) {
    return `it was ${original} before Drawbridge, and somebody else has set it to ${present} since`;
  }
  const way = `sysctl -w ${dotted(key)}=${original}`;
  if (FORWARDING.test(key))
    return `Drawbridge changed it from ${original} to ${present}, and others may rely on that: ${way}`;
  // The kernel refuses every new connection above the size.
  if (key === TABLE_SIZE && original !== "0" && connections !== undefined && connections * 2 > Number(original)) {
    return `${connections} connections are tracked, so they may soon be more than the ${original} from before: ${way}`;
  }
  if (key === REDIRECTS && hasConnectedPods) return "pods use the bridge; --pods takes it, too";
  return undefined;
}
