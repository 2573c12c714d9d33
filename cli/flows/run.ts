import { Buffer } from "node:buffer";
import * as v from "valibot";
import { ExitCode, type Io, styleOf } from "../io.ts";
import { daemonEntries } from "../input/input_schema.ts";
import { askDaemons, daemonCommands, type DaemonQuestion, tellAway } from "../input/programs/daemons.ts";
import { followed } from "../input/programs/programs.ts";
import { isWanted } from "./filter.ts";
import { mergedRows } from "./merge.ts";
import { type News, newsJson, parseNews } from "./news.ts";
import { filterOf, flowEntries } from "./options.ts";
import { flowJson, flowLine, flowTable } from "./print.ts";
import { readFlowFile } from "./read_file.ts";

const optionsSchema = v.object({
  ...flowEntries,
  ...daemonEntries,
  node: v.optional(v.string()),
});

const COMMAND = ["node", "flows", "--output=jsonl", "--config=/etc/drawbridge/policyd.yaml"];
const OTHERWISE = "run drawbridge node flows on each node";

/**
 * Prints the flows of all nodes, or of one.
 *
 * @throws DrawbridgeError ERR_INPUT as askDaemons, readFlowFile and filterOf; with --follow when a node's command ends
 */
export async function runFlows(io: Io, options: unknown): Promise<ExitCode> {
  const { node, kubeconfig, context, drawbridgeNamespace, ...flows } = v.parse(optionsSchema, options);
  const { follow, output } = flows;
  const filter = filterOf(flows, Date.now());
  const access = { kubeconfig, context, drawbridgeNamespace };
  const args = follow ? [...COMMAND, "--follow"] : COMMAND;
  const onUnlisted = (reason: string): void => io.err.write(`note: nodes without a daemon are not known: ${reason}\n`);
  const question: DaemonQuestion = { option: "flows", args, expected: "flows", otherwise: OTHERWISE, node, onUnlisted };
  if (follow) {
    const { commands, away } = await daemonCommands(io.programs, access, question);
    tellAway(io, away);
    const show = (news: News): void => {
      if (!isWanted(filter, news.row)) return;
      io.out.write(output === "jsonl" ? newsJson(news) : flowLine(news.row, news.count, styleOf(io.out)));
    };
    const ended = new Promise<ExitCode>((resolve, reject) => {
      const onLine = (line: string): void => {
        show(parseNews(line));
        if (io.out.isClosed) resolve(ExitCode.YES);
      };
      for (const { attempt } of commands) followed(io.programs, attempt, onLine).catch(reject);
    });
    try {
      return await ended;
    } finally {
      await io.programs.endAll();
    }
  }
  const { answers, away } = await askDaemons(io.programs, access, question);
  tellAway(io, away);
  const rows = mergedRows(answers.flatMap((answer) => readFlowFile([Buffer.from(answer.text)], `node ${answer.node}`)));
  const wanted = rows.filter((row) => isWanted(filter, row));
  io.out.write(output === "jsonl" ? flowJson(wanted) : flowTable(wanted, styleOf(io.out), io.out.columns));
  return ExitCode.YES;
}
