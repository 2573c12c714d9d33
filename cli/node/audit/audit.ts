import { displayName, HOST_INTERFACE_PREFIX, hostInterfaceName } from "../../../attachment/names_and_macs.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { Owner } from "../../../ipam/owner.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { delayDevices, hostLinks, sha256 } from "../cleanup/attached.ts";
import { seen } from "../../../policyd/problems/check.ts";
import type { AuditedRecord, AuditFacts } from "./facts.ts";
import { type AuditFindings, type Leak, LEAK_KINDS } from "./leak.ts";

/** Whether other IPAM plugins gave an attachment's addresses: only their DEL releases those (cni/delegation/). */
type IsDelegated = (record: AttachmentRecord) => boolean;

/**
 * Finds what belongs to no existing sandbox. An ADD in progress is never reported: its record is written before
 * everything except its reservation, and names its namespace; reservations count only after some time.
 */
export function audit(facts: AuditFacts): AuditFindings {
  const links = new Set((seen(facts.links) ?? []).map(({ name }) => name));
  const records = seen(facts.records)?.records ?? [];
  const ended = records.filter((one) => isOver(one, links));
  const lasting = new Set(records.filter((one) => !ended.includes(one)).map(({ record }) => record.hostInterface));
  const isDelegated: IsDelegated = ({ dataDir }) => dataDir === `${facts.place.stateDirectory}/delegated`;
  const canSee = "value" in facts.links && "value" in facts.records;
  const leaks = [
    ...ended.flatMap(({ record, hasEnded }) => recordLeaks(record, hasEnded, isDelegated)),
    ...(seen(facts.records)?.unreadable ?? []).map(unreadableLeak),
    ...(canSee ? [...addressLeaks(facts, links), ...linkLeaks(facts), ...elementLeaks(facts, links, lasting)] : []),
  ];
  const kindOf = ({ kind }: Leak): number => LEAK_KINDS.indexOf(kind);
  return { leaks: leaks.toSorted((a, b) => kindOf(a) - kindOf(b)), unseen: unseenOf(facts) };
}

/** Returns whether a sandbox is over. A marked record may be of a Pod's earlier sandbox, while a link still exists. */
function isOver({ record, hasEnded, isMarked }: AuditedRecord, links: ReadonlySet<string>): boolean {
  return hasEnded || (isMarked && !links.has(record.hostInterface));
}

function recordLeaks(record: AttachmentRecord, hasEnded: boolean, isDelegated: IsDelegated): readonly Leak[] {
  const { network, containerId, ifname, portMappings } = record;
  const who = `${displayName(record)} ${ifname}`;
  const why = hasEnded
    ? `the sandbox of ${who} has ended without DEL`
    : `the link of ${who} is gone, and its Pod, or the Pod has another sandbox`;
  const repair = isDelegated(record)
    ? "another IPAM plugin has to release its addresses: have the runtime call DEL or GC"
    : ({ kind: "detach", record } as const);
  return [
    { kind: "record", what: `${network}/${containerId}:${ifname}`, why, repair },
    ...record.addresses.map(({ address }): Leak => ({ kind: "address", what: formatAddress(address), why, repair })),
    ...portMappings.map(({ hostPort, protocol, hostIp }): Leak => ({
      kind: "host port",
      what: `${hostPort}/${protocol}${hostIp === undefined ? "" : ` of ${formatAddress(hostIp)}`}`,
      why,
      repair,
    })),
  ];
}

function unreadableLeak({ path, reason }: { readonly path: string; readonly reason: string }): Leak {
  const repair = `nobody can tell whose it is: recreate the pod of this container, or without one rm '${path}'`;
  return { kind: "record", what: path, why: `no record of an attachment can be read from it: ${reason}`, repair };
}

/** Yields reservations without a record and a link. */
function* addressLeaks(facts: AuditFacts, links: ReadonlySet<string>): Generator<Leak> {
  const recorded = new Set(
    (seen(facts.records)?.records ?? []).map(
      ({ record: { network, containerId, ifname } }) => `${network}/${containerId}:${ifname}`,
    ),
  );
  for (const { network, reservation, path, isOld } of seen(facts.reservations) ?? []) {
    const { kind, address } = reservation;
    if (!isOld) continue;
    const what = formatAddress(address);
    if (kind === "unreadable") {
      const repair = `nobody can tell whose it is: where no pod has the address (kubectl get pods -A -o wide), rm '${path}'`;
      yield { kind: "address", what, why: "its reservation names no container", repair };
      continue;
    }
    const owner = kind === "owned" ? reservation.owner : { containerId: reservation.containerId, ifname: "eth0" };
    if (recorded.has(`${network}/${owner.containerId}:${owner.ifname}`)) continue;
    if (links.has(linkOf(owner))) continue;
    const refusal = refusalFor(facts, owner.containerId);
    if (refusal === "alive") continue;
    yield {
      kind: "address",
      what,
      why: `it is reserved for container ${owner.containerId}, which has neither record nor link`,
      repair: refusal ?? { kind: "release", network, owner, address },
    };
  }
}

/**
 * Yields our links without a record. They are left: the kernel removes a link with the pod's namespace, so each has one.
 * That no process has the sandbox's name proves nothing, since CRI-O's sandboxes have no process of their own.
 */
function* linkLeaks(facts: AuditFacts): Generator<Leak> {
  const links = seen(facts.links) ?? [];
  const recorded = new Set((seen(facts.records)?.records ?? []).map(({ record }) => record.hostInterface));
  const owners = new Map(
    (seen(facts.reservations) ?? []).flatMap(({ reservation }): readonly (readonly [string, Owner])[] =>
      reservation.kind === "owned" ? [[linkOf(reservation.owner), reservation.owner]] : [],
    ),
  );
  for (const { name } of hostLinks({ links })) {
    if (recorded.has(name)) continue;
    const owner = owners.get(name);
    const repair =
      owner === undefined
        ? `nobody can tell whose it is: where no pod of this node has it (ip link show ${name}), ip link delete ${name}`
        : `container ${owner.containerId} may run: recreate its pod, or without one ip link delete ${name}`;
    // policyd writes the record of a known pod again.
    yield { kind: "link", what: name, why: "it has no record", repair };
  }
  const names = new Set(links.map(({ name }) => name));
  for (const { name } of delayDevices({ links })) {
    const port = `${HOST_INTERFACE_PREFIX}${name.slice(3)}`;
    if (names.has(port) || recorded.has(port)) continue;
    yield {
      kind: "link",
      what: name,
      why: "the pod's link whose packets it delays is gone",
      repair: { kind: "link", name },
    };
  }
}

function* elementLeaks(facts: AuditFacts, links: ReadonlySet<string>, lasting: ReadonlySet<string>): Generator<Leak> {
  const ended = new Map((seen(facts.records)?.records ?? []).map(({ record }) => [record.hostInterface, record]));
  for (const hostInterface of seen(facts.pluginOwners) ?? []) {
    if (links.has(hostInterface) || lasting.has(hostInterface)) continue;
    const why = "they are in the plugin's tables, and there is neither a link nor a record of a running sandbox";
    yield { kind: "element", what: `elements of ${hostInterface}`, why, repair: { kind: "withdraw", hostInterface } };
  }
  for (const hostInterface of seen(facts.guardOwners) ?? []) {
    if (links.has(hostInterface) || lasting.has(hostInterface)) continue;
    const record = ended.get(hostInterface);
    const why = "they are in policyd's tables, and there is neither a link nor a record of a running sandbox";
    const repair =
      record === undefined
        ? "policyd removes them within seconds, or at its next start"
        : ({ kind: "detach", record } as const);
    yield { kind: "element", what: `elements of ${hostInterface}`, why, repair };
  }
}

/** @returns why a container's things must not be touched; undefined where it has ended */
function refusalFor({ hasProcesses }: AuditFacts, containerId: string): string | undefined {
  if ("value" in hasProcesses) return hasProcesses.value(containerId) ? "alive" : undefined;
  return `nobody can tell here whether container ${containerId} runs (${hasProcesses.unseen}): run it on the node itself`;
}

function linkOf({ containerId, ifname }: Owner): string {
  return hostInterfaceName(sha256, containerId, ifname);
}

function unseenOf(facts: AuditFacts): AuditFindings["unseen"] {
  const parts = {
    records: facts.records,
    links: facts.links,
    addresses: facts.reservations,
    "elements of the plugin": facts.pluginOwners,
    "elements of policyd": facts.guardOwners,
  };
  return Object.entries(parts).flatMap(([what, part]) =>
    "value" in part ? [] : [{ what, reason: part.unseen, needsRoot: part.needsRoot === true }],
  );
}
