import { tableOf } from "../table.ts";
import { type Entries, type Messages, readEntries } from "./entries.ts";
import { pluginErrors } from "./plugin_errors.ts";

const HEAD = `# Troubleshooting by message

Search this page for the words that you have seen: a line of the log, a problem of the status or an error of the plugin.
A message that is not here says itself what has happened, and so does each finding of [\`node
doctor\`](cli.md#node-doctor). [Kubernetes Events](events.md) have a page of their own. The sign \`…\` stands for a
value.
`;

const LOG = `## The log of the daemon

Words such as \`reason\` and \`error\` are fields of the line ([the log](debugging.md#the-log)). A line that begins with
\`policyd: \` is the last one of a daemon that could not start.
`;

const STATUS = `## Problems of the status

The daemon's [status](debugging.md#the-state-of-the-daemon) lists its present problems, and \`node doctor\` reports each.
`;

const PLUGIN = `## Errors of the plugin

The kubelet's Event \`FailedCreatePodSandBox\` has the plugin's message, with the way out and the kind of the error. The
number is in the plugin's own answer. Numbers below 100 are [the
specification's](https://www.cni.dev/docs/spec/#error), except for 8, which is that of the reference plugins.
`;

/** Returns the page of all messages, the required content of docs/troubleshooting.md. */
export function troubleshootingDocument(): string {
  const entries = readEntries();
  const sections: readonly string[] = [
    HEAD,
    LOG,
    ...messageSections(entries.log, "line"),
    STATUS,
    ...messageSections(entries.status, "problem"),
    PLUGIN,
    `${errorTable(entries)}\n`,
  ];
  return sections.join("\n");
}

/** Returns the sections of messages that are alike, and then a table of the others by the alphabet. */
function messageSections({ alike, single }: Messages, noun: string): readonly string[] {
  const rows = Object.entries(single)
    .toSorted(([a], [b]) => compareWords(a, b))
    .map(([words, { meaning, way }]) => [inCode([words]), meaning, way]);
  return [
    ...alike.map(({ title, words, listed, meaning, way }) =>
      section(title, listed ? `${listOf(words)}\n\n${meaning}` : meaning, way),
    ),
    `### Single ${noun}s\n`,
    `${tableOf([noun, "meaning", "way out"], rows)}\n`,
  ];
}

function listOf(words: readonly string[]): string {
  return words
    .toSorted(compareWords)
    .map((one) => `* ${inCode([one])}`)
    .join("\n");
}

/** Compares texts for the alphabetical order by their first word; a value at the beginning does not count. */
function compareWords(a: string, b: string): number {
  const [first, second] = [a, b].map((words) => words.replace(/^[^\p{L}]+/u, "").toLowerCase());
  return (first ?? "") < (second ?? "") ? -1 : 1;
}

function section(title: string, text: string, way: string): string {
  return `### ${title}\n\n${text}\n\n**Way out.** ${way}\n`;
}

function errorTable({ plugin }: Entries): string {
  const rows = pluginErrors().map(({ name, code, details }) => {
    // A test reports an explanation that is missing here.
    const { meaning, way } = plugin[name] ?? { meaning: "" };
    return [`${code} ${inCode([name, ...details])}`, way === undefined ? meaning : `${meaning} ${way}`];
  });
  return tableOf(["error", "meaning"], rows);
}

function inCode(texts: readonly string[]): string {
  return texts.map((text) => `\`${text}\``).join(", ");
}
