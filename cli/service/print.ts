import { printable } from "../../objects/printable.ts";
import { foldLine } from "../output/fold.ts";
import type { Style } from "../style.ts";
import { serviceTexts } from "../policy/explain/service_print.ts";
import { socketText } from "../policy/explain/service_report.ts";
import type { PacketReport, ServiceExplanation } from "./explain.ts";

const ENTRIES = { node: "this node itself", pod: "a pod of this node", outside: "not from this node" } as const;

const ANSWERS = {
  pass: "passes unchanged",
  translate: "goes to a Service",
  drop: "is dropped",
  reject: "is refused",
} as const;

/** Returns the explanation in words, folded to the width of the terminal. */
export function serviceExplanationText(
  { packets, remarks }: ServiceExplanation,
  style: Style,
  columns: number,
): string {
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
  const paint = verdict === "drop" || verdict === "reject" ? style.bad : style.good;
  return `${where}${protocol} from ${style.strong(from.join(", "))} (${ENTRIES[entry]}) to ${style.strong(to)}: ${paint(ANSWERS[verdict])}`;
}
