import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { ExitCode } from "../../exit_code.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries } from "../../input/input_schema.ts";
import type { Io } from "../../io.ts";
import { styleOf } from "../../style.ts";
import { placeEntries, placeOf } from "../place.ts";
import { carryOut } from "./carry_out.ts";
import { CLEANUP_FORMATS } from "./command.ts";
import { cleanupPlan } from "./plan.ts";
import { reportObject, reportTable } from "./print.ts";

const optionsSchema = v.object({
  ...placeEntries,
  ...configurationEntries,
  yes: v.boolean(),
  pods: v.boolean(),
  force: v.boolean(),
  output: v.picklist(CLEANUP_FORMATS),
});

/**
 * @returns 0 when nothing is left to remove, 1 when something is: because nothing was to be done yet, or it could not be
 * @throws DrawbridgeError ERR_CONFIGURATION, ERR_INPUT while policyd runs, and when the node cannot be looked at
 */
export async function runCleanup(io: Io, options: unknown): Promise<ExitCode> {
  const { yes, pods, force, output, config, ...places } = v.parse(optionsSchema, options);
  const place = placeOf(places, configurationOf(io, config));
  const machine = await io.node.open(place.networkNamespace);
  const inventory = machine.readInventory(place);
  if (yes && inventory.isDaemonRunning && !force) {
    throw new DrawbridgeError(
      "ERR_INPUT",
      `policyd answers on ${place.socket} and would put back what is removed; expected none: ` +
        "kubectl delete -k the manifests it was installed by, or give --force",
    );
  }
  const plan = cleanupPlan(inventory, pods);
  const outcomes = yes ? carryOut(machine, plan.removals) : undefined;
  const report = { plan, outcomes };
  if (output === "json") io.out.write(`${JSON.stringify(reportObject(report), null, 2)}\n`);
  else if (output === "yaml") io.out.write((await import("yaml")).stringify(reportObject(report), { lineWidth: 0 }));
  else for (const text of reportTable(report, io.out.columns, styleOf(io.out))) io.out.write(text);
  const isDone = outcomes?.every(({ failure }) => failure === undefined) ?? plan.removals.length === 0;
  return isDone ? ExitCode.YES : ExitCode.NO;
}
