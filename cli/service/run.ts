import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import { clusterOf } from "../cluster/cluster.ts";
import { endNameOf } from "../cluster/end_name.ts";
import { findEnd } from "../cluster/find_end.ts";
import { ExitCode, type Io, type Style, styleOf } from "../io.ts";
import { serviceSettingsOf } from "../cluster/service_world.ts";
import { configurationOf } from "../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../input/input_schema.ts";
import { loadManifests, namespaceFor } from "../input/load.ts";
import { EXPLAIN_FORMATS } from "../policy/explain/command.ts";
import { ExplainContext } from "../policy/explain/context.ts";
import { explainService, isDelivered, type PacketReport, type ServiceExplanation } from "./explain.ts";
import { parseTarget, TARGET_FORMS } from "./target.ts";
import { printable } from "../../objects/printable.ts";
import { foldLine } from "../output/fold.ts";
import { serviceTexts } from "../policy/explain/service_print.ts";
import { socketText } from "../policy/explain/service_report.ts";

const optionsSchema = v.object({
  ...inputEntries,
  ...configurationEntries,
  from: v.string(),
  to: v.string(),
  node: v.optional(v.string()),
  output: v.picklist(EXPLAIN_FORMATS),
});

/** Prints the answer. @throws DrawbridgeError as loadManifests, ERR_OBJECT for unknown names, ERR_CONFIGURATION */
export async function runServiceExplain(io: Io, options: unknown): Promise<ExitCode> {
  const { from, to, node, output, config, ...input } = v.parse(optionsSchema, options);
  const settings = serviceSettingsOf(configurationOf(io, config, input.filename));
  const namespace = await namespaceFor(io, input, input.cluster);
  const target = parseTarget(to, namespace);
  if (target === undefined) throw new RangeError(`${JSON.stringify(to)}: expected ${TARGET_FORMS}`);
  if (!settings.isServing) {
    const why = "these nodes serve no Services, and what another program does with them is not known here";
    throw new DrawbridgeError("ERR_CONFIGURATION", `--config: services: false; expected true: ${why}`);
  }
  const { manifests } = await loadManifests(io, input);
  const context = new ExplainContext(clusterOf(manifests), { settings });
  const { cluster, worlds } = context;
  const source = findEnd(cluster, endNameOf(from, namespace), new Map());
  if (source.type === "service") throw new RangeError("a Service is not a source");
  const { end, port, protocol } = target;
  const destination = findEnd(cluster, end, end.type === "service" ? worlds.objects.services : new Map());
  if (node === undefined && source.hosts.some((host) => host.type === "outside")) {
    io.err.write(`error: ${source.name} is on no node; name the node its packet comes to by --node\n`);
    return ExitCode.USAGE;
  }
  if (node !== undefined) findEnd(cluster, { type: "node", name: node }, new Map());
  const explanation = explainService(context, { from: source, to: destination, port, protocol, node });
  const isJson = output === "json";
  const text = isJson
    ? `${JSON.stringify(explanation, null, 2)}\n`
    : serviceExplanationText(explanation, styleOf(io.out), io.out.columns);
  io.out.write(text);
  if (explanation.delivered) return ExitCode.YES;
  const isUnknown = explanation.packets.some(
    ({ report: { verdict, frontend } }) => verdict === "reject" && worlds.objects.unknown.has(frontend?.service ?? ""),
  );
  return isUnknown ? ExitCode.ERROR : ExitCode.NO;
}

const ENTRIES = { node: "this node itself", pod: "a pod of this node", outside: "not from this node" } as const;

const ANSWERS = {
  pass: "passes unchanged",
  translate: "goes to a Service",
  drop: "is dropped",
  reject: "is refused",
} as const;

/** Returns the explanation in words, folded to the width of the terminal. */
function serviceExplanationText({ packets, remarks }: ServiceExplanation, style: Style, columns: number): string {
  const blocks = packets.map((packet) => {
    const head = foldLine(headText(packet, style), columns, 0, 2);
    return head + serviceTexts([packet.report], style, columns).join("");
  });
  const notes = remarks.map((remark) => foldLine(`Note: ${printable(remark)}.`, columns, 0, 6)).join("");
  return [...blocks, ...(notes === "" ? [] : [notes])].join("\n");
}

function headText({ from, entry, protocol, address, port, report }: PacketReport, style: Style): string {
  const { verdict, nodes } = report;
  const where = nodes.length === 0 ? "" : `on node ${nodes.join(", ")}, `;
  const to = address === null ? `port ${port}` : socketText(address, port);
  const paint = isDelivered(report) ? style.good : style.bad;
  return `${where}${protocol} from ${style.strong(from.join(", "))} (${ENTRIES[entry]}) to ${style.strong(to)}: ${paint(ANSWERS[verdict])}`;
}
