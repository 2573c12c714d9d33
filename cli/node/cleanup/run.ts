import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries } from "../../input/input_schema.ts";
import { DOCUMENT_FORMATS, documentText } from "../../output/document.ts";
import type { PodsThere } from "./inventory.ts";
import type { NodeMachine } from "../machine/machine.ts";
import { type NodePlace, placeEntries, placeOf } from "../place.ts";
import { attachedPods } from "./attached.ts";
import { carryOut } from "./carry_out.ts";
import { cleanupPlan, podList } from "./plan.ts";
import { type Report, reportObject, reportTable } from "./print.ts";

const optionsSchema = v.object({
  ...placeEntries,
  ...configurationEntries,
  yes: v.boolean(),
  pods: v.boolean(),
  wait: v.boolean(),
  force: v.boolean(),
  output: v.picklist(DOCUMENT_FORMATS),
});

/** The time between two checks for pods. */
const PAUSE_MILLISECONDS = 2000;

/**
 * @returns 0 when nothing is left to remove; 1 for a plan with removals, a failed removal or, with --pods, a pod
 * @throws DrawbridgeError ERR_CONFIGURATION, ERR_INPUT while policyd runs, and when the node cannot be read
 */
export async function runCleanup(io: Io, options: unknown): Promise<ExitCode> {
  const { yes, pods, wait, force, output, config, ...places } = v.parse(optionsSchema, options);
  const place = placeOf(places, configurationOf(io, config));
  const machine = await io.node.open(place.networkNamespace);
  const parts = { machine, place, withPods: pods, force };
  const first = cleanUp({ ...parts, yes });
  const report = yes && wait ? await cleanUpLater(io, parts, first) : first;
  if (output !== "table") io.out.write(await documentText(output, reportObject(report)));
  else for (const text of reportTable(report, io.out.columns, styleOf(io.out))) io.out.write(text);
  return isDone(report, pods) ? ExitCode.YES : ExitCode.NO;
}

interface CleanupParts {
  readonly machine: NodeMachine;
  readonly place: NodePlace;
  readonly withPods: boolean;
  /** Works even while policyd runs. */
  readonly force: boolean;
}

/** @throws DrawbridgeError ERR_INPUT while policyd runs */
function cleanUp({ machine, place, withPods, force, yes }: CleanupParts & { readonly yes: boolean }): Report {
  const inventory = machine.readInventory(place);
  if (yes && !force) refuseBesideDaemon(inventory, place);
  const plan = cleanupPlan(inventory, withPods);
  return { plan, outcomes: yes ? carryOut(machine, plan.removals) : undefined };
}

function refuseBesideDaemon({ isDaemonRunning }: PodsThere, { socket }: NodePlace): void {
  if (!isDaemonRunning) return;
  throw new DrawbridgeError(
    "ERR_INPUT",
    `policyd answers on ${socket} and would put back what is removed; expected none: ` +
      "kubectl delete -k the manifests it was installed by, or give --force",
  );
}

/**
 * Waits until the pods are gone, then removes what was retained for them.
 *
 * @returns the report of both steps
 * @throws DrawbridgeError ERR_INPUT when policyd runs again
 */
async function cleanUpLater(io: Io, parts: CleanupParts, first: Report): Promise<Report> {
  let said = "";
  for (let pods = first.plan.pods; pods.length > 0;) {
    const text = podList(pods);
    if (text !== said)
      io.err.write(`waiting until pods that Drawbridge has attached are deleted: ${printable(text)}\n`);
    said = text;
    await io.node.sleep(PAUSE_MILLISECONDS);
    const found = parts.machine.readPods(parts.place);
    // If Drawbridge was installed again, these pods need what exists.
    if (!parts.force) refuseBesideDaemon(found, parts.place);
    pods = attachedPods(found);
  }
  if (first.plan.pods.length === 0) return first;
  const last = cleanUp({ ...parts, yes: true });
  return { plan: last.plan, outcomes: [...(first.outcomes ?? []), ...(last.outcomes ?? [])] };
}

function isDone({ plan, outcomes }: Report, withPods: boolean): boolean {
  if (withPods && plan.pods.length > 0) return false;
  return outcomes?.every(({ failure }) => failure === undefined) ?? plan.removals.length === 0;
}
