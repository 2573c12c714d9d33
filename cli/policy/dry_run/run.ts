import { exitCodeBeside } from "../domain_names.ts";
import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import { printable } from "../../../objects/printable.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { nearestHint } from "../../../objects/nearest_names.ts";
import { standInAddresses } from "../../cluster/placeholder_addresses.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf, policyOptionsOf } from "../../input/configuration_file.ts";
import { daemonEntries } from "../../input/input_schema.ts";
import { expectOneReading, loadManifests, loadPlaces, namespaceFor, tellDoubts } from "../../input/load.ts";
import { CLUSTER } from "../../input/place.ts";
import { shownBy } from "../../input/shown.ts";
import { inMarkdown, markdownCode } from "../../output/markup.ts";
import { formatPage } from "../../output/page/page.ts";
import { writeAll } from "../../output/write_all.ts";
import { readTables, type TablePlaces } from "../live/read_tables.ts";
import { type LiveReport, liveReport } from "../live/report.ts";
import { compareSides, diffReport, exitCodeOf, shownPart } from "../diff/compared.ts";
import { changeMarkdown, changePage, type DiffReport } from "../diff/print.ts";
import { comparisonEntries, type DiffPrinters } from "../diff/run.ts";
import type { Locations } from "../diff/witness.ts";
import {
  type Applied,
  applyObjects,
  deleteObjects,
  isManifest,
  namesToDelete,
  type ObjectChange,
  type Objects,
  placedName,
  withoutOldSlices,
} from "./apply.ts";
import { isolationEffects, policyEffects } from "./effect.ts";
import { type DryRun, dryRunFacts, dryRunObject, dryRunText } from "./print.ts";
import { warningsOf } from "./warnings.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

const optionsSchema = v.object({
  ...comparisonEntries,
  ...daemonEntries,
  filename: v.optional(v.array(v.string()), []),
  against: v.array(v.string()),
  ledger: v.optional(v.array(v.string()), []),
  live: v.optional(v.boolean(), false),
  delete: v.optional(v.union([v.literal(true), v.array(v.string())])),
});

/** Prints the effects. @throws DrawbridgeError ERR_INPUT for malformed names, and as loadPlaces */
export async function runDryRun(io: Io, options: unknown): Promise<ExitCode | string> {
  const asked = v.parse(optionsSchema, options);
  const misuse = misuseOf(asked);
  if (misuse !== undefined) return misuse;
  const {
    filename,
    against,
    delete: deleted,
    output,
    ledger,
    live: isLive,
    config,
    ingressController,
    ...read
  } = asked;
  const policyOptions = policyOptionsOf(configurationOf(io, config, [...filename, ...against]));
  expectOneReading([filename, against]);
  // An object without a namespace gets the one that kubectl apply would use.
  const input = { ...read, namespace: await namespaceFor(io, read, against.includes(CLUSTER)) };
  // Doubts are about the objects after the change.
  const part = { ...input, isPart: true, waysIn: true };
  const given = filename.length === 0 ? NOTHING : await loadManifests(io, { ...part, filename, cluster: false });
  const there = await loadPlaces(io, against, part);
  const applied = changeOf(there, given, deleted);
  if (deleted !== true) expectFound(applied, there);
  const { after } = applied;
  const changed = new Set(applied.changes.flatMap((one) => one.after ?? []).filter(isManifest));
  // A warning already reports the change itself; and after everything is deleted, the empty result needs no doubt.
  if (after.manifests.length > 0 || there.manifests.length === 0) tellDoubts(io, [after.manifests, changed]);
  const comparison = compareSides(
    { before: there, after: { ...after, wayManifests: withoutOldSlices(applied) } },
    { by: "workload", options: policyOptions, controllers: ingressController },
  );
  const { sides, locations } = comparison;
  const places = { isLive, ledgers: ledger, access: read };
  const live = await tryOnConnections(io, places, [there, after], { options: policyOptions, locate: locations.after });
  tellUnjudged(io, comparison.ways.after.doubts);
  const isShown = shownBy(read);
  const shown = shownPart(comparison, isShown, io);
  const result: DryRun = {
    policies: policyEffects(sides, applied.changes),
    others: otherChanges(applied),
    isolation: isolationEffects(sides, isShown),
    diff: diffReport(comparison, shown, true),
    warnings: warningsOf(comparison, applied, there),
    live,
  };
  const facts = dryRunFacts(result);
  const page = { title: "Effect of the change", facts };
  const list = facts.map((fact) => inMarkdown`* ${markdownCode(fact)}`);
  const single = (): DiffReport => diffReport(comparison, shown, false);
  const print: DiffPrinters = {
    table: () => dryRunText(result, styleOf(io.out), io.out.columns),
    json: () => [`${JSON.stringify(dryRunObject(result), null, 2)}\n`],
    md: () => [changeMarkdown(result.diff, list)],
    html: () => formatPage(changePage(page, result.diff, single()), [...filename, ...against]),
  };
  writeAll(io.out, print[output]());
  if (live !== undefined && !live.hasPods) {
    throw new DrawbridgeError("ERR_INPUT", "none of the connections could be judged; expected some of these pods");
  }
  const uncut = live?.isPartial === true ? ExitCode.ERROR : ExitCode.YES;
  const ofLive = live?.cuts.length === 0 ? uncut : ExitCode.NO;
  // A table of connections does not say by which names pods know the addresses.
  return live === undefined ? exitCodeOf(comparison, io) : exitCodeBeside(io, [sides.before, sides.after], ofLive);
}

function misuseOf(asked: v.InferOutput<typeof optionsSchema>): string | undefined {
  if (asked.filename.length === 0 && !Array.isArray(asked.delete)) {
    return "nothing to try: give files with -f or names with --delete";
  }
  const isAboutConnections = asked.ledger.length > 0 || asked.live;
  if (!isAboutConnections || asked.output === "table" || asked.output === "json") return undefined;
  return "--live and --ledger are printed as -o table or -o json";
}

/** Tries the change on connections. @returns undefined where none are given */
async function tryOnConnections(
  io: Io,
  places: TablePlaces,
  [before, after]: readonly [Objects, Objects],
  { options, locate }: { readonly options: PolicyOptions; readonly locate: Locations["after"] },
): Promise<LiveReport | undefined> {
  const { isLive, ledgers } = places;
  if (!isLive && ledgers.length === 0) return undefined;
  const addressed = standInAddresses();
  const sides = {
    before: buildPolicyIndex(storeOf(before.manifests.map(({ object }) => addressed(object))), options),
    after: buildPolicyIndex(storeOf(after.manifests.map(({ object }) => addressed(object))), options),
  };
  const tables = await readTables(io, places, sides.before, sides.after);
  // A table of the current moment needs no remark.
  for (const text of ledgers.length > 0 ? tables.remarks : []) io.err.write(`note: ${printable(text)}\n`);
  return liveReport(sides, locate, tables);
}

/** Returns the objects after the change. @throws DrawbridgeError ERR_INPUT for names to delete that are malformed */
function changeOf(there: Objects, given: Objects, deleted: true | readonly string[] | undefined): Applied {
  return deleted === true
    ? deleteObjects(applyObjects(there, NOTHING), namesToDelete(there, given))
    : deleteObjects(applyObjects(there, given), (deleted ?? []).map(objectName));
}

/** @throws DrawbridgeError ERR_INPUT for an object to delete that does not exist, with the nearest names of its kind */
function expectFound({ missing: [name] }: Applied, { manifests, wayObjects }: Objects): void {
  if (name === undefined) return;
  const known = [...manifests, ...wayObjects].map(placedName);
  const kind = name.slice(0, name.indexOf(" ") + 1);
  const ofKind = known.filter((one) => one.startsWith(kind));
  const hint = nearestHint(name, ofKind, "expected one that is there");
  throw new DrawbridgeError("ERR_INPUT", `--delete: ${name} is not among the objects; ${hint}`);
}

const NOTHING: Objects = Object.freeze({ manifests: [], wayObjects: [] });

/** Returns the changes of everything but policies, those of ways in last. */
function otherChanges({ changes }: Applied): readonly ObjectChange[] {
  const others = changes.filter(({ placed: { object } }) => !POLICIES.includes(object.kind));
  return others.toSorted((a, b) => Number(isManifest(b.placed)) - Number(isManifest(a.placed)));
}

const POLICIES: readonly string[] = ["NetworkPolicy", "ClusterNetworkPolicy"];

/** The words for kinds on the command line. */
const KINDS: ReadonlyMap<string, { readonly kind: string; readonly isNamespaced: boolean }> = new Map(
  [
    { names: ["networkpolicy", "networkpolicies", "netpol"], kind: "NetworkPolicy", isNamespaced: true },
    {
      names: ["clusternetworkpolicy", "clusternetworkpolicies", "cnp"],
      kind: "ClusterNetworkPolicy",
      isNamespaced: false,
    },
    { names: ["pod", "pods", "po"], kind: "Pod", isNamespaced: true },
    { names: ["service", "services", "svc"], kind: "Service", isNamespaced: true },
    { names: ["ingress", "ingresses", "ing"], kind: "Ingress", isNamespaced: true },
    { names: ["httproute", "httproutes"], kind: "HTTPRoute", isNamespaced: true },
    { names: ["grpcroute", "grpcroutes"], kind: "GRPCRoute", isNamespaced: true },
  ].flatMap(({ names, ...kind }) => names.map((name) => [name, kind] as const)),
);

/**
 * Returns the name in messages of an object on the command line: `networkpolicy/shop/web` is `NetworkPolicy shop/web`.
 *
 * @throws DrawbridgeError ERR_INPUT for any other text
 */
function objectName(text: string): string {
  const [first = "", ...rest] = text.split("/");
  const known = KINDS.get(first.toLowerCase());
  if (known !== undefined && rest.length === (known.isNamespaced ? 2 : 1) && !rest.includes("")) {
    return `${known.kind} ${rest.join("/")}`;
  }
  throw new DrawbridgeError(
    "ERR_INPUT",
    `--delete: ${JSON.stringify(text)}; expected networkpolicy/NS/NAME, clusternetworkpolicy/NAME, or pod, service, ingress, httproute or grpcroute/NS/NAME`,
  );
}
