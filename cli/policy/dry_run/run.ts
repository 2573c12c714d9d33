import { exitCodeBeside } from "../domain_names.ts";
import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import { printable } from "../../../objects/printable.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { nameOf } from "../../../objects/gate/gate.ts";
import { nearestHint } from "../../nearest_names.ts";
import { wayObjectName } from "../../input/ways/way_object.ts";
import { podsWithAddresses } from "../../cluster/placeholder_addresses.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode } from "../../exit_code.ts";
import { configurationOf, policyOptionsOf } from "../../input/configuration_file.ts";
import { accessEntries, configurationEntries, daemonEntries, readingEntries } from "../../input/input_schema.ts";
import { expectOneReading, loadManifests, loadPlaces, namespaceFor, tellDoubts } from "../../input/load.ts";
import type { Manifest, Manifests } from "../../input/manifests.ts";
import { CLUSTER } from "../../input/place.ts";
import { shownBy, shownEntries } from "../../input/shown.ts";
import type { Io } from "../../io.ts";
import { inMarkdown, markdownCode } from "../../output/markup.ts";
import { formatPage } from "../../output/page/page.ts";
import { writeAll } from "../../output/write_all.ts";
import { styleOf } from "../../style.ts";
import { readTables, type TablePlaces } from "../live/read_tables.ts";
import { type LiveReport, liveReport } from "../live/report.ts";
import { compareSides, diffReport, exitCodeOf, shownPart } from "../diff/compared.ts";
import { changeMarkdown } from "../diff/markdown.ts";
import { changePage } from "../diff/page.ts";
import type { Locations } from "../diff/witness.ts";
import { controllerEntries } from "../../ways_in/controller_option.ts";
import { type AppliedWays, applyWays, deleteWays, waysToDelete, withoutOldSlices } from "./apply_ways.ts";
import { type Applied, applyObjects, deleteObjects, namesToDelete } from "./apply.ts";
import { DRY_RUN_FORMATS } from "./command.ts";
import { isolationEffects, policyEffects } from "./effect.ts";
import { type DryRun, dryRunFacts, dryRunObject, dryRunText } from "./print.ts";
import { warningsOf } from "./warnings.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

const optionsSchema = v.object({
  filename: v.optional(v.array(v.string()), []),
  against: v.array(v.string()),
  recursive: v.boolean(),
  ...readingEntries,
  ...accessEntries,
  ...daemonEntries,
  ...configurationEntries,
  ...controllerEntries,
  ...shownEntries,
  ledger: v.optional(v.array(v.string()), []),
  live: v.optional(v.boolean(), false),
  delete: v.optional(v.union([v.literal(true), v.array(v.string())])),
  output: v.picklist(DRY_RUN_FORMATS),
});

/** Prints the effects. @throws DrawbridgeError ERR_INPUT for malformed names, and as loadPlaces */
export async function runDryRun(io: Io, options: unknown): Promise<ExitCode> {
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
  } = v.parse(optionsSchema, options);
  const policyOptions = policyOptionsOf(configurationOf(io, config, [...filename, ...against]));
  expectOneReading([filename, against]);
  // An object without a namespace gets the one that kubectl apply would use.
  const input = { ...read, namespace: await namespaceFor(io, read, against.includes(CLUSTER)) };
  // Doubts are about the objects after the change.
  const part = { ...input, isPart: true, waysIn: true };
  const given = filename.length === 0 ? NOTHING : await loadManifests(io, { ...part, filename, cluster: false });
  const there = await loadPlaces(io, against, part);
  const { applied, ways } = changeOf(there, given, deleted);
  if (deleted !== true) expectFound(applied, there);
  const changed = new Set(applied.changes.flatMap(({ after }) => after ?? []));
  // A warning already reports the change itself; and after everything is deleted, the empty result needs no doubt.
  if (applied.after.length > 0 || there.manifests.length === 0) tellDoubts(io, [applied.after, changed]);
  const comparison = compareSides(
    {
      before: { manifests: applied.before, wayObjects: ways.before },
      after: { manifests: applied.after, wayObjects: ways.after, wayManifests: withoutOldSlices(applied) },
    },
    { by: "workload", options: policyOptions, controllers: ingressController },
  );
  const { sides, locations } = comparison;
  const places = { isLive, ledgers: ledger, access: read };
  const live = await tryOnConnections(io, places, applied, { options: policyOptions, locate: locations.after });
  tellUnjudged(io, comparison.ways.after.doubts);
  const isShown = shownBy(read);
  const shown = shownPart(comparison, isShown, io);
  const tryAs = (isMerged: boolean): Omit<DryRun, "live"> => ({
    policies: policyEffects(sides, applied.changes),
    others: applied.changes.filter(({ before, after }) => !isPolicy(after ?? before)),
    wayObjects: ways.changes,
    isolation: isolationEffects(sides, isShown),
    diff: diffReport(comparison, shown, isMerged),
    warnings: warningsOf(comparison, applied, there),
  });
  const result = { ...tryAs(true), live };
  if (output === "html") {
    const page = { title: "Effect of the change", facts: dryRunFacts(result) };
    writeAll(io.out, formatPage(changePage(page, result.diff, tryAs(false).diff), [...filename, ...against]));
  } else for (const text of printed(result, output, io)) io.out.write(text);
  if (live !== undefined && !live.hasPods) {
    throw new DrawbridgeError("ERR_INPUT", "none of the connections could be judged; expected some of these pods");
  }
  const uncut = live?.isPartial === true ? ExitCode.ERROR : ExitCode.YES;
  const ofLive = live?.cuts.length === 0 ? uncut : ExitCode.NO;
  // A table of connections does not say by which names pods know the addresses.
  return live === undefined ? exitCodeOf(comparison, io) : exitCodeBeside(io, [sides.before, sides.after], ofLive);
}

/** Tries the change on connections. @returns undefined where none are given */
async function tryOnConnections(
  io: Io,
  places: TablePlaces,
  applied: Applied,
  { options, locate }: { readonly options: PolicyOptions; readonly locate: Locations["after"] },
): Promise<LiveReport | undefined> {
  const { isLive, ledgers } = places;
  if (!isLive && ledgers.length === 0) return undefined;
  const addressed = podsWithAddresses();
  const sides = {
    before: buildPolicyIndex(storeOf(addressed(applied.before.map(({ object }) => object))), options),
    after: buildPolicyIndex(storeOf(addressed(applied.after.map(({ object }) => object))), options),
  };
  const tables = await readTables(io, places, sides.before, sides.after);
  // A table of the current moment needs no remark.
  for (const text of ledgers.length > 0 ? tables.remarks : []) io.err.write(`note: ${printable(text)}\n`);
  return liveReport(sides, locate, tables);
}

/** Returns the objects before and after. @throws DrawbridgeError ERR_INPUT for names to delete that are malformed */
function changeOf(
  there: Objects,
  given: Objects,
  deleted: true | readonly string[] | undefined,
): { readonly applied: Applied; readonly ways: AppliedWays } {
  if (deleted === true) {
    const names = waysToDelete(there.wayObjects, given.wayObjects, given.manifests);
    return {
      applied: deleteObjects(applyObjects(there.manifests, []), namesToDelete(there.manifests, given.manifests)),
      ways: deleteWays(applyWays(there.wayObjects, []), names),
    };
  }
  const names = (deleted ?? []).map(objectName);
  const ways = deleteWays(applyWays(there.wayObjects, given.wayObjects), names);
  const isWay = (name: string): boolean => ways.changes.some((one) => one.type === "deleted" && one.name === name);
  const others = names.filter((name) => !isWay(name));
  return { applied: deleteObjects(applyObjects(there.manifests, given.manifests), others), ways };
}

/** @throws DrawbridgeError ERR_INPUT for an object to delete that does not exist, with the nearest names of its kind */
function expectFound({ missing: [name] }: Applied, { manifests, wayObjects }: Objects): void {
  if (name === undefined) return;
  const known = [
    ...manifests.map(({ object }) => nameOf(object)),
    ...wayObjects.map(({ object }) => wayObjectName(object)),
  ];
  const kind = name.slice(0, name.indexOf(" ") + 1);
  const ofKind = known.filter((one) => one.startsWith(kind));
  const hint = nearestHint(name, ofKind, "expected one that is there");
  throw new DrawbridgeError("ERR_INPUT", `--delete: ${name} is not among the objects; ${hint}`);
}

type Objects = Pick<Manifests, "manifests" | "wayObjects">;
const NOTHING: Objects = Object.freeze({ manifests: [], wayObjects: [] });

function isPolicy(manifest: Manifest | undefined): boolean {
  const kind = manifest?.object.kind;
  return kind === "NetworkPolicy" || kind === "ClusterNetworkPolicy";
}

function printed(
  result: DryRun,
  format: Exclude<(typeof DRY_RUN_FORMATS)[number], "html">,
  { out }: Io,
): Iterable<string> {
  switch (format) {
    case "table":
      return dryRunText(result, styleOf(out), out.columns);
    case "json":
      return [`${JSON.stringify(dryRunObject(result), null, 2)}\n`];
    case "md":
      return [
        changeMarkdown(
          result.diff,
          dryRunFacts(result).map((fact) => inMarkdown`* ${markdownCode(fact)}`),
        ),
      ];
  }
}

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
