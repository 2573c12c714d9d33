import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { isWanted } from "../../flows/filter.ts";
import { mergedRows } from "../../flows/merge.ts";
import { newsJson, NewsReader } from "../../flows/news.ts";
import { filterOf, flowEntries } from "../../flows/options.ts";
import { flowJson, flowLine, flowTable } from "../../flows/print.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries } from "../../input/input_schema.ts";
import type { FlowPlace, NodeMachine } from "../machine/machine.ts";

const optionsSchema = v.object({
  ...configurationEntries,
  ...flowEntries,
  socket: v.optional(v.string()),
  flowDirectory: v.optional(v.string()),
});

const PERIOD_MILLISECONDS = 1000;

/** Prints flows. @throws DrawbridgeError ERR_INPUT without a ledger, as {@link filterOf}; ERR_STORE */
export async function runNodeFlows(io: Io, options: unknown): Promise<ExitCode> {
  const { config, socket, flowDirectory, ...flows } = v.parse(optionsSchema, options);
  const { follow, output } = flows;
  const filter = filterOf(flows, Date.now());
  const configuration = configurationOf(io, config);
  const place: FlowPlace = {
    socket: socket ?? configuration.socketPath,
    directory: flowDirectory ?? configuration.flowLedgerDirectory,
  };
  const machine = await io.node.open(undefined);
  if (!follow) {
    const rows = mergedRows(read(io, machine, place)).filter((row) => isWanted(filter, row));
    io.out.write(output === "jsonl" ? flowJson(rows) : flowTable(rows, styleOf(io.out), io.out.columns));
    return ExitCode.YES;
  }
  const reader = new NewsReader();
  for (;;) {
    const news = reader.news(read(io, machine, place)).filter(({ row }) => isWanted(filter, row));
    for (const one of news) {
      io.out.write(output === "jsonl" ? newsJson(one) : flowLine(one.row, one.count, styleOf(io.out)));
    }
    if (io.out.isClosed) return ExitCode.YES;
    await io.node.sleep(PERIOD_MILLISECONDS);
  }
}

function read(io: Io, machine: NodeMachine, place: FlowPlace): ReturnType<NodeMachine["readFlows"]>["rows"] {
  const { rows, problems } = machine.readFlows(place);
  if (rows.length === 0 && problems.length > 0) {
    throw new DrawbridgeError("ERR_INPUT", printable(`${place.directory}: no flows: ${problems.join("; ")}`));
  }
  for (const problem of problems) io.err.write(`note: ${printable(problem)}\n`);
  return rows;
}
