import type { Seen } from "../../../policyd/problems/check.ts";
import type { AuditedRecord, AuditFacts } from "./facts.ts";

/** Returns what two reads of a node agree about: things that are in both, and every record that either has. */
export function lastingFacts(first: AuditFacts, second: AuditFacts): AuditFacts {
  return {
    ...second,
    links: both(first.links, second.links, (one, other) => {
      const names = new Set(one.map(({ name }) => name));
      return other.filter(({ name }) => names.has(name));
    }),
    reservations: both(first.reservations, second.reservations, (one, other) => {
      const paths = new Set(one.map(({ path }) => path));
      return other.filter(({ path }) => paths.has(path));
    }),
    pluginOwners: both(first.pluginOwners, second.pluginOwners, inBoth),
    guardOwners: both(first.guardOwners, second.guardOwners, inBoth),
    records: both(first.records, second.records, (one, other) => ({
      records: lastingRecords(one.records, other.records),
      unreadable: other.unreadable.filter(({ path }) => one.unreadable.some((each) => each.path === path)),
    })),
  };
}

function inBoth(one: ReadonlySet<string>, other: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...other].filter((name) => one.has(name)));
}

/** Marks a record as ended only if both reads say so; one that only one read has belongs to a call in progress. */
function lastingRecords(one: readonly AuditedRecord[], other: readonly AuditedRecord[]): readonly AuditedRecord[] {
  const [before, now] = [one, other].map((records) => new Map(records.map((each) => [keyOf(each), each])));
  return [...new Map([...(before ?? []), ...(now ?? [])])].map(([key, latest]) => {
    const [earlier, later] = [before?.get(key), now?.get(key)];
    const isInBoth = (holds: (record: AuditedRecord) => boolean): boolean =>
      earlier !== undefined && later !== undefined && holds(earlier) && holds(later);
    return {
      record: latest.record,
      hasEnded: isInBoth(({ hasEnded }) => hasEnded),
      isMarked: isInBoth(({ isMarked }) => isMarked),
    };
  });
}

function keyOf({ record: { network, containerId, ifname } }: AuditedRecord): string {
  return `${network}/${containerId}:${ifname}`;
}

/** Joins two facts. @returns why something was not seen, where that applies to either */
function both<T>(first: Seen<T>, second: Seen<T>, join: (one: T, other: T) => T): Seen<T> {
  if (!("value" in first)) return first;
  return "value" in second ? { value: join(first.value, second.value) } : second;
}
