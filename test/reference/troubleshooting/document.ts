import { type DoctorCheck, doctorChecks, type DoctorFinding } from "./doctor_findings.ts";
import { type Entries, type Explanation, readEntries } from "./entries.ts";
import { eventReasons, explainedEvents } from "./event_reasons.ts";
import { logMessages } from "./log_messages.ts";
import { pluginErrors } from "./plugin_errors.ts";

const HEAD = `# Troubleshooting by message

Search this page for the words that you have seen. Each entry has their meaning and the way out.
[Debugging](debugging.md) begins with symptoms instead, such as a pod without network. This page is written by
\`npm run docs\` from the sources.

* [The log of the daemon](#the-log-of-the-daemon)
* [Events](#events)
* [Problems of the status](#problems-of-the-status)
* [Findings of node doctor](#findings-of-node-doctor)
* [Errors of the plugin](#errors-of-the-plugin)

The sign \`…\` stands for a value, such as a name or an address.
`;

const LOG = `## The log of the daemon

These are the warnings and errors of \`policyd\`. Words such as \`reason\` and \`error\` in the entries are fields of the
line ([the log](debugging.md#the-log)).

A line that begins with \`policyd: \` is the last one of a daemon that could not start. It names the option or the field
of [the configuration](configuration.md), the value and what was expected.
`;

const EVENTS = `## Events

The daemon writes these Events about objects of the cluster. [Kubernetes Events](events.md) says when, and how many.
`;

const STATUS = `## Problems of the status

The daemon's [status](debugging.md#the-state-of-the-daemon) lists its present problems, and the check \`daemon\` of
\`node doctor\` reports most of them. A problem that is not in this list has the words of an Event or of the \`reason\` of a line
of the log, and names its way out.
`;

const DOCTOR = `## Findings of node doctor

[\`drawbridge node doctor\`](cli.md#node-doctor) prints each finding with its reason and its way out. Here they are in
the order of the checks' names.
`;

const PLUGIN = `## Errors of the plugin

The kubelet's Event \`FailedCreatePodSandBox\` has the plugin's message, which names the field, the value, what was
expected and the way out. At its end is the kind of the error, such as \`ERR_RANGE_EXHAUSTED\`, where it has one. The
number is in the plugin's own answer. Numbers below 100 are [the
specification's](https://www.cni.dev/docs/spec/#error), except for 8, which is that of the reference plugins.
`;

/** Returns the page of all messages, the required content of docs/troubleshooting.md. */
export function troubleshootingDocument(): string {
  const entries = readEntries();
  const events = explainedEvents();
  const sections: readonly string[] = [
    HEAD,
    LOG,
    ...logMessages()
      .toSorted((a, b) => compareWords(a.words, b.words))
      .map(({ words, levels }) => entry(words, inCode(levels), explained(entries.log[words]))),
    EVENTS,
    ...eventReasons().map((reason) =>
      entry(reason, `About ${events.get(reason)?.about ?? ""}`, explained(events.get(reason))),
    ),
    STATUS,
    ...Object.entries(entries.status)
      .toSorted(([a], [b]) => compareWords(a, b))
      .map(([words, explanation]) => entry(words, "", explained(explanation))),
    DOCTOR,
    ...doctorChecks().map((check) => checkSection(check, entries)),
    PLUGIN,
    ...pluginErrors().map(({ name, code, details }) =>
      entry(`${code} ${name}`, inCode(details), explained(entries.plugin[name])),
    ),
  ];
  return sections.join("\n");
}

/** Compares texts for the alphabetical order by their first word; a value at the beginning does not count. */
function compareWords(a: string, b: string): number {
  const [first, second] = [a, b].map((words) => words.replace(/^[^\p{L}]+/u, "").toLowerCase());
  return (first ?? "") < (second ?? "") ? -1 : 1;
}

function entry(words: string, kind: string, { meaning, way }: Explanation): string {
  const lead = kind === "" ? "" : `${kind}: `;
  return `### \`${words}\`\n\n${lead}${meaning}\n\n**Way out.** ${way}\n`;
}

/** A test reports what is missing here. */
function explained(explanation: Explanation | undefined): Explanation {
  return explanation ?? { meaning: "", way: "" };
}

function checkSection({ id, summary, findings }: DoctorCheck, { doctor }: Entries): string {
  const { note, ...open } = doctor[id] ?? {};
  const head = `### \`${id}\`\n\n${[summary, note].filter((one) => one !== undefined).join(" ")}\n`;
  const items = findings
    .map((finding) => ({ finding, what: finding.what ?? [open.what ?? ""] }))
    .toSorted((a, b) => compareWords(a.what[0] ?? "", b.what[0] ?? ""))
    .map(({ finding, what }) => findingItem(finding, what, open.way ?? ""));
  return `${head}\n${items.join("\n")}\n`;
}

function findingItem({ severities, why, way }: DoctorFinding, what: readonly string[], otherwise: string): string {
  const severity = severities.length === 0 ? "" : ` (${severities.join(" or ")})`;
  const wayOut = way.length === 0 ? otherwise : inCode(way, " or ");
  return `* ${inCode(what, " or ")}${severity}\\\n  Why: ${inCode(why, " or ")}\\\n  Way out: ${wayOut}`;
}

function inCode(texts: readonly string[], separator = ", "): string {
  return texts.map((text) => `\`${text}\``).join(separator);
}
