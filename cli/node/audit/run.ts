import * as v from "valibot";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries } from "../../input/input_schema.ts";
import { DOCUMENT_FORMATS, documentText } from "../../output/document.ts";
import { failureOf } from "../cleanup/carry_out.ts";
import type { NodeMachine } from "../machine/machine.ts";
import { type NodePlace, placeEntries, placeOf } from "../place.ts";
import { audit } from "./audit.ts";
import { type Leak, repairKey } from "./leak.ts";
import { auditObject, type AuditReport, auditTable, type Outcome } from "./print.ts";

const optionsSchema = v.object({
  ...placeEntries,
  ...configurationEntries,
  repair: v.boolean(),
  output: v.picklist(DOCUMENT_FORMATS),
});

/**
 * @returns 1 where leaks are left, 3 where there are none but nothing could be checked, or root could have checked more
 * @throws DrawbridgeError ERR_INPUT, ERR_CONFIGURATION; SyscallError ERR_NAMESPACE
 */
export async function runAudit(io: Io, options: unknown): Promise<ExitCode> {
  const { repair, output, config, ...places } = v.parse(optionsSchema, options);
  const place = placeOf(places, configurationOf(io, config));
  const machine = await io.node.open(place.networkNamespace);
  const report = auditNode(machine, place, repair);
  if (output !== "table") io.out.write(await documentText(output, auditObject(report)));
  else for (const text of auditTable(report, io.out.columns, styleOf(io.out))) io.out.write(text);
  if (report.outcomes.some(({ state }) => state !== "repaired")) return ExitCode.NO;
  const { unseen } = report;
  return unseen.some(({ what, needsRoot }) => needsRoot || what === "records") ? ExitCode.ERROR : ExitCode.YES;
}

/** Finds leaks and, if asked to, makes each possible repair once. */
export function auditNode(
  machine: Pick<NodeMachine, "readAuditFacts" | "repair">,
  place: NodePlace,
  isRepaired: boolean,
): AuditReport {
  const { leaks, unseen } = audit(machine.readAuditFacts(place));
  const done = new Map<string, string | undefined>();
  const outcomeOf = (leak: Leak): Outcome => {
    if (typeof leak.repair === "string") return { leak, state: isRepaired ? "left" : "leaked", reason: leak.repair };
    if (!isRepaired) return { leak, state: "leaked", reason: undefined };
    const { repair } = leak;
    const key = repairKey(repair);
    if (!done.has(key))
      done.set(
        key,
        failureOf(() => machine.repair(place, repair)),
      );
    const failure = done.get(key);
    return { leak, state: failure === undefined ? "repaired" : "left", reason: failure };
  };
  return { isRepaired, outcomes: leaks.map(outcomeOf), unseen };
}
