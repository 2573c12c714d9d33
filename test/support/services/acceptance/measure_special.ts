import { setTimeout as pause } from "node:timers/promises";
import { type Family, FAMILIES } from "../../../../kernel/ip/address.ts";
import type { AcceptanceLab } from "./acceptance_lab.ts";
import { type Choices, clientKey, type Result, type Shot, type Special, specialKey } from "./measured.ts";
import { type NodePlace, NODES } from "./places.ts";
import { ALL, type Further, type Probe, type Row } from "./row.ts";
import { furtherOf, shoot } from "./shoot.ts";
import { until } from "../../until.ts";

/** A pause after which a part of a client's timeout is over. */
const WINDOW_PAUSE_MILLISECONDS = 1500;

/** Measures what takes time or changes the cluster: one row after the other. */
export async function measureSpecial(lab: AcceptanceLab, rows: readonly Row[]): Promise<ReadonlyMap<string, Special>> {
  const special = new Map<string, Special>();
  for (const [row, further] of furtherOf(rows, "window restarts")) {
    await restartWindow(lab, row, further, special);
  }
  for (const [row, further] of furtherOf(rows, "chosen anew")) await chooseAnew(lab, row, further, special);
  for (const [row, further] of furtherOf(rows, "goes on")) await goOn(lab, row, further, special);
  return special;
}

/** Returns connections of some clients to one frontend, in one family. */
function shotsAt(
  row: Row,
  { to, from }: Pick<Probe, "to" | "from">,
  family: Family,
  transports: readonly Shot["transport"][],
): readonly Shot[] {
  const probe: Probe = { from, to, reaches: {} };
  return from.flatMap((one) => transports.map((transport) => ({ row, probe, from: one, transport, family })));
}

function choicesOf(results: readonly Result[], family: Family): Choices {
  const own = results.filter(({ shot }) => shot.family === family);
  return new Map(own.map(({ shot, seenBy }) => [clientKey(shot), seenBy]));
}

async function restartWindow(
  lab: AcceptanceLab,
  row: Row,
  at: Extract<Further, { readonly type: "window restarts" }>,
  special: Map<string, Special>,
): Promise<void> {
  const shots = FAMILIES.flatMap((family) => shotsAt(row, at, family, ["tcp"]));
  await shoot(lab, shots);
  await pause(WINDOW_PAUSE_MILLISECONDS);
  const start = performance.now();
  await shoot(lab, shots);
  const left = FAMILIES.map((family) => entriesLeft(lab, "n1", family, "2m"));
  const elapsed = performance.now() - start;
  for (const [i, family] of FAMILIES.entries()) {
    special.set(specialKey(row, family), { type: "window restarts", left: left[i] ?? [], elapsed });
  }
}

/** Returns the remaining milliseconds of each client's entry on a node with this timeout. */
function entriesLeft(lab: AcceptanceLab, node: NodePlace, family: Family, timeout: string): readonly number[] {
  const text = lab.namespace(node).exec("nft", ["list", "map", "inet", "drawbridge", `client${family}`]);
  const pattern = new RegExp(`timeout ${timeout} expires (?:(\\d+)m)?(?:(\\d+)s)?(?:(\\d+)ms)?`, "g");
  return [...text.matchAll(pattern)].map(
    ([, minutes = 0, seconds = 0, rest = 0]) => 60_000 * Number(minutes) + 1000 * Number(seconds) + Number(rest),
  );
}

async function chooseAnew(
  lab: AcceptanceLab,
  row: Row,
  at: Extract<Further, { readonly type: "chosen anew" }>,
  special: Map<string, Special>,
): Promise<void> {
  const shots = FAMILIES.flatMap((family) => shotsAt(row, at, family, ALL));
  const before = await shoot(lab, shots);
  await until(
    () => NODES.every((node) => FAMILIES.every((family) => entriesLeft(lab, node, family, "1s").length === 0)),
    "no client is remembered",
  );
  const after = await shoot(lab, shots);
  for (const family of FAMILIES) {
    special.set(specialKey(row, family), {
      type: "chosen anew",
      before: choicesOf(before, family),
      after: choicesOf(after, family),
    });
  }
}

async function goOn(
  lab: AcceptanceLab,
  row: Row,
  at: Extract<Further, { readonly type: "goes on" }>,
  special: Map<string, Special>,
): Promise<void> {
  const gone = lab.world.documentAddress(at.without);
  lab.apply(lab.world.manifests((text) => withoutEndpoint(text, at.slice, gone)));
  // UDP is omitted: a datagram from an earlier datagram's port belongs to the earlier flow.
  const shots = FAMILIES.flatMap((family) => shotsAt(row, at, family, ["tcp", "sctp"]));
  const all: Result[] = [];
  let last: readonly Result[] = [];
  await until(async () => {
    last = await shoot(lab, shots);
    all.push(...last);
    return last.every(({ seenBy }) => seenBy === at.with);
  }, `all clients meet ${at.with}`);
  for (const family of FAMILIES) {
    const failures = all.filter(({ shot, reached }) => shot.family === family && !reached);
    special.set(specialKey(row, family), {
      type: "goes on",
      failures: failures.map(({ shot, why }) => `${clientKey(shot)}: ${why}`),
      last: choicesOf(last, family),
    });
  }
}

function withoutEndpoint<
  T extends { readonly slices: Readonly<Record<string, { readonly endpoints: readonly unknown[] }>> },
>(text: T, name: string, address: string): T {
  const slice = text.slices[name];
  if (slice === undefined) throw new Error(`no slice ${name}`);
  const endpoints = slice.endpoints.filter((endpoint) => !String(endpoint).startsWith(`${address}@`));
  return { ...text, slices: { ...text.slices, [name]: { ...slice, endpoints } } };
}
