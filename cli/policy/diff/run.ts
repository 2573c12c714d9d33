import * as v from "valibot";
import { nameOf } from "../../../objects/gate/gate.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import { GROUPINGS } from "../../cluster/group.ts";
import { type ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf, policyOptionsOf } from "../../input/configuration_file.ts";
import { accessEntries, configurationEntries, readingEntries } from "../../input/input_schema.ts";
import { expectOneReading, loadPlaces, namespaceFor } from "../../input/load.ts";
import { isPod, type Manifest } from "../../input/manifests.ts";
import { CLUSTER } from "../../input/place.ts";
import { shownBy, shownEntries } from "../../input/shown.ts";
import { rollOut } from "../../input/template_pods.ts";
import { formatPage } from "../../output/page/page.ts";
import { writeAll } from "../../output/write_all.ts";
import { controllerEntries } from "../../ways_in/controller_option.ts";
import { tellOversizes } from "../size.ts";
import { DIFF_FORMATS } from "./command.ts";
import { compareSides, diffReport, exitCodeOf, shownPart } from "./compared.ts";
import { changeMarkdown, changePage, diffObject, diffText, type DiffReport } from "./print.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

/** The schema of the options of a command that compares two sides. */
export const comparisonEntries = {
  recursive: v.boolean(),
  ...readingEntries,
  ...accessEntries,
  ...configurationEntries,
  ...controllerEntries,
  ...shownEntries,
  output: v.picklist(DIFF_FORMATS),
};

const optionsSchema = v.object({
  ...comparisonEntries,
  old: v.string(),
  new: v.array(v.string()),
  by: v.picklist(GROUPINGS),
});

/** Prints the diff. @throws DrawbridgeError as loadPlaces */
export async function runDiff(io: Io, options: unknown): Promise<ExitCode> {
  const {
    old: oldPath,
    new: newPaths,
    by,
    output,
    config,
    ingressController,
    ...read
  } = v.parse(optionsSchema, options);
  const policyOptions = policyOptionsOf(configurationOf(io, config, [oldPath, ...newPaths]));
  expectOneReading([[oldPath], newPaths]);
  const input = {
    ...read,
    namespace: await namespaceFor(io, read, [oldPath, ...newPaths].includes(CLUSTER)),
    waysIn: true,
  };
  const old = await loadPlaces(io, [oldPath], { ...input, label: "old: " });
  const young = await loadPlaces(io, newPaths, { ...input, label: "new: " });
  const comparison = compareSides(
    {
      before: { ...old, manifests: withPlaces(old.manifests, young.manifests) },
      after: { ...young, manifests: withPlaces(young.manifests, old.manifests) },
    },
    { by, options: policyOptions, controllers: ingressController },
  );
  const { sides, standIns, ways } = comparison;
  const diff = shownPart(comparison, shownBy(read), io);
  const pods = diff.groups.filter(({ kind }) => kind === "pods");
  if (pods.length === 0) {
    const what = standIns.names.size === 0 ? "there is nothing to compare" : "only new pods are compared";
    io.err.write(`no pod is on either side: ${what}; give the pods or workloads with the policies\n`);
  } else if (!pods.some(({ sizes }) => sizes.both > 0)) {
    io.err.write("no workload is on both sides: all connections count as those of new and removed workloads\n");
  }
  tellUnjudged(io, ways.before.doubts, "old: ");
  tellUnjudged(io, ways.after.doubts, "new: ");
  const tell = (isMerged: boolean): DiffReport => diffReport(comparison, diff, isMerged);
  const report = tell(true);
  const page = { title: `${oldPath} → ${newPaths.join(", ")}`, facts: [] };
  const print: DiffPrinters = {
    table: () => diffText(report, styleOf(io.out), io.out.columns),
    json: () => [`${JSON.stringify(diffObject(report), null, 2)}\n`],
    md: () => [changeMarkdown(report)],
    html: () => formatPage(changePage(page, report, tell(false)), [oldPath, ...newPaths]),
  };
  writeAll(io.out, print[output]());
  tellOversizes(io, sides.before, "old: ");
  tellOversizes(io, sides.after, "new: ");
  return exitCodeOf(comparison, io);
}

/** The printer of a comparison for each format. */
export type DiffPrinters = Readonly<Record<(typeof DIFF_FORMATS)[number], () => Iterable<string>>>;

/**
 * Returns the manifests with the running pods of the other side in place of stand-ins for the same workloads: with the
 * addresses and nodes that only pods of a cluster have, and with what the templates say.
 */
function withPlaces(manifests: readonly Manifest[], others: readonly Manifest[]): readonly Manifest[] {
  const isTemplate = ({ workload }: Manifest): boolean => workload !== undefined;
  const written = manifests.filter((one) => !isTemplate(one));
  const known = new Set(written.map(({ object }) => nameOf(object)));
  const pods = others.filter(isPod).filter((one) => !isTemplate(one) && !isFinished(one.object));
  const { changed, added } = rollOut(
    pods.filter(({ object }) => !known.has(nameOf(object))),
    manifests.filter(isPod).filter(isTemplate),
  );
  return [...written, ...changed.map(({ after }) => after), ...added];
}
