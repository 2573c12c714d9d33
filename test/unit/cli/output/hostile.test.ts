import assert from "node:assert/strict";
import * as fc from "fast-check";
import * as v from "valibot";
import { parseAllDocuments } from "yaml";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { readXml } from "../../../support/xml.ts";

const PIECES = [
  "a",
  " ",
  "\n",
  "\r",
  "\u001b[31m",
  "\u202e",
  "`",
  "``",
  "|",
  "\\",
  '"',
  "'",
  "<img src=x onerror=a()>",
  "</script>",
  "<!--",
  "]]>",
  "&lt;",
  "@all",
  "[x](y)",
  "**",
  "#59;",
  "\n::set-output name=report::x",
  "\n```\n",
  "\n1..0\nok ",
  " # SKIP",
  "${{ x }}",
];
const hostile = fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 8 }).map((pieces) => pieces.join(""));

const MOMENT = "2026-05-04T03:02:01.000Z";

/** Returns a shop whose files, annotations, ports and hosts, and refused labels and names, are a text. */
function filesOf(evil: string): Readonly<Record<string, string>> {
  const text = JSON.stringify(evil);
  const pod = (name: string): string =>
    `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"${name}","namespace":"x","labels":{"app":"${name}"},"annotations":{"drawbridge.dev/shadow":${text},"a":${text}}},"spec":{"containers":[]}}`;
  const policy = `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"x","annotations":{"drawbridge.dev/shadow":${text}}},"spec":{"podSelector":{"matchLabels":{"app":"db"}},"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":"weeb"}}}]}]}}`;
  const named = [
    `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":${text}}}`,
    `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q","namespace":"x","labels":{"app":${text}}},"spec":{}}`,
    `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"x"},"spec":{"selector":{"app":"db"},"ports":[{"port":80}]}}`,
    `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i","namespace":"x"},"spec":{"ingressClassName":${text},"rules":[{"host":${text},"http":{"paths":[{"path":${text},"pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}}`,
  ];
  const row = (from: object): string =>
    JSON.stringify({
      from,
      to: { workload: "x/db" },
      protocol: "TCP",
      port: 80,
      verdict: "allowed",
      observedAt: "to",
      reason: evil,
      firstSeen: MOMENT,
      lastSeen: MOMENT,
      count: 1,
      open: 0,
      bytes: 1,
    });
  const name = evil.replaceAll("/", "");
  return {
    [`d/${name}.json`]: [pod("web"), pod("db"), policy].join("\n"),
    [`e/${name}.json`]: [pod("web"), pod("db")].join("\n"),
    [`f/${name}.json`]: [pod("web"), pod("db"), ...named].join("\n"),
    [`g/${name}.json`]: [pod("web"), pod("db"), policy, ...named.slice(2)].join("\n"),
    "flows.jsonl": [{ workload: evil }, { workload: "x/web" }].map(row).join("\n"),
    "tests.yaml": `apiVersion: drawbridge.dev/v1alpha1\nkind: PolicyTest\ntests:\n- {name: ${text}, from: x/web, to: x/db, port: 80, expect: allowed, reason: ${text}}\n`,
  };
}

const COMMANDS: readonly (readonly [readonly string[], readonly (keyof typeof READERS)[]])[] = [
  [
    ["lint", "-R", "-f", "d"],
    ["table", "json", "sarif"],
  ],
  [
    ["lint", "-R", "-f", "f"],
    ["table", "json", "sarif"],
  ],
  [
    ["matrix", "-R", "-f", "f"],
    ["table", "json", "md", "html"],
  ],
  [
    ["matrix", "-R", "-f", "d"],
    ["table", "json", "md", "html"],
  ],
  [
    ["diff", "-R", "e", "d"],
    ["table", "json", "md", "html"],
  ],
  [
    ["diff", "-R", "e", "f"],
    ["table", "json", "md", "html"],
  ],
  [
    ["dry-run", "-R", "-f", "d", "--against", "e"],
    ["table", "json", "md", "html"],
  ],
  [
    ["explain", "-R", "-f", "d", "x/web", "x/db", "80/TCP"],
    ["table", "json"],
  ],
  [
    ["coverage", "-R", "-f", "d"],
    ["table", "json", "line"],
  ],
  [["describe", "x/db", "-R", "-f", "g"], ["text"]],
  [["suggest", "-R", "-f", "g", "-n", "x", "--ledger", "flows.jsonl"], ["yaml"]],
  [["rules", "-R", "-f", "g", "--node", "n"], ["nft"]],
  [
    ["test", "tests.yaml", "-R", "-f", "d"],
    ["table", "tap", "junit", "json"],
  ],
];

/** Fails where a text has control characters, or begins a line as a command of GitHub's runner does. */
const isPlain = (out: string): void => {
  assert.doesNotMatch(out.replaceAll(/[\n\t]/g, ""), /[\p{Cf}\p{Cc}]/u, out);
  assert.doesNotMatch(out, /^::/m, out);
};

/** Fails where a text is anything but cells, text nodes or values in what a format's reader sees. */
const READERS = {
  table: (out: string) => isPlain(out),
  line: (out: string) => isPlain(out),
  json: (out: string) => void JSON.parse(out),
  sarif: (out: string) => {
    JSON.parse(out);
    // A viewer shows [text](target) as a link (SARIF 2.1.0 section 3.11.6).
    assert.doesNotMatch(out, /\]\(/);
  },
  text: (out: string) => isPlain(out),
  yaml: (out: string) => {
    isPlain(out);
    for (const document of parseAllDocuments(out)) {
      const { kind, apiVersion } = v.parse(v.object({ kind: v.string(), apiVersion: v.string() }), document.toJS());
      assert.deepEqual([kind, apiVersion, document.errors], ["NetworkPolicy", "networking.k8s.io/v1", []]);
    }
  },
  nft: (out: string) => {
    isPlain(out);
    assert.deepEqual([...new Set([...out.matchAll(/^\S+/gm)].map(([word]) => word))].sort(), ["#", "table", "}"]);
  },
  tap: (out: string) => {
    isPlain(out);
    assert.doesNotMatch(out, /^(ok|1\.\.0)|^not ok.*[^\\]#/m, out);
  },
  junit: (out: string) => {
    readXml(out);
    assert.deepEqual([...new Set([...out.matchAll(/<\/?(\w+)/g)].map(([, tag]) => tag))], XML_TAGS);
  },
  html: (out: string) => {
    const data = /<script type="application\/json" id="data">([^<]*)<\/script>/.exec(out)?.[1];
    JSON.parse(data ?? assert.fail("no data"));
    const shown = out.replaceAll(/<(script|style)[^>]*>[^]*?<\/\1>/g, "");
    const tags = [...shown.matchAll(/<[^>]*>/g)].map(([tag]) => tag);
    for (const tag of tags) assert.match(tag, HTML_TAG, tag);
    assert.doesNotMatch(shown.replaceAll(/<[^>]*>/g, "").replaceAll(/&#\d+;/g, ""), /[<>&`]/, shown);
  },
  md: (out: string) => {
    for (const block of out.split(/^```(?:mermaid)?$/m).entries()) {
      for (const line of block[1].split("\n")) {
        // Code in backticks has no markup; a bar in it would still end a cell.
        const rest = block[0] % 2 === 1 ? line.replaceAll(/"[^"]*"/g, "") : withoutCode(line);
        assert.match(rest, block[0] % 2 === 1 ? MERMAID_LINE : MARKDOWN_LINE, out);
        if (block[0] % 2 === 1) assert.doesNotMatch(line, /[<>`](?<!-->|-\.->)/, out);
      }
    }
  },
} satisfies Readonly<Record<string, (out: string) => void>>;

/** The formats of commands that have only one. */
const ONLY_FORMATS: ReadonlySet<string> = new Set(["text", "yaml", "nft"]);
const XML_TAGS = ["testsuites", "testsuite", "testcase", "failure"];
const HTML_TAG =
  /^<(!doctype html|html lang="en"|\/?(head|title|body|header|h1|h2|p|section|b|i|ul|li|details|summary|label|button|div|table|aside|footer|noscript|span|html)|meta [a-z-]+="[^"<>]*"( content="[^"<>]*")?|(section|p|table|input|aside|button|div|i|span|details) [a-z-]+="[\w -]*"( [a-z-]+="[\w -]*")*)>$/;
const MERMAID_LINE = /^(flowchart LR| {2}subgraph box\d+ \[\]| {4}n\d+\[\]| {2}end| {2}n\d+ (-->|-\.->)\|\| n\d+|)$/;
const MARKDOWN_LINE =
  /^(\*\*[\w .,:;]*\*\*|\|([^|`<[\]@*&]* \|)+|( {2})?\* [\w ()]*C|<details><summary>Why<\/summary>|<\/details>|[\w .,]*|\| from \\ to \|.*)$/;

/** Replaces code spans by a letter: each ends at the next run of as many backticks. */
function withoutCode(line: string): string {
  const bare = line.replaceAll(/(`+)((?:(?!\1(?!`))[^])*?[^`])\1(?!`)/g, (_, __, code: string) => {
    assert.doesNotMatch(code, /(^|[^\\])\|/, line);
    return "C";
  });
  assert.ok(!bare.includes("`"), line);
  return bare;
}

describe("cli/output: hostile texts in every format", () => {
  it("PAGE-05 PAGE-09 PTEST-05: hostile names of files, objects, labels, hosts, tests and values of annotations are only texts, cells and values in each format of each command", async function () {
    this.timeout(300_000);
    const printed = new Set<string>();
    await fc.assert(
      fc.asyncProperty(hostile, async (evil) => {
        const files = memoryFiles(filesOf(evil));
        for (const [args, formats] of COMMANDS) {
          for (const format of formats) {
            const words = args[0] === "rules" ? args : ["policy", ...args];
            const { out, err } = await runCli(ONLY_FORMATS.has(format) ? words : [...words, "-o", format], files);
            isPlain(err);
            if (out === "") continue;
            READERS[format](out);
            printed.add(format);
          }
        }
      }),
      { numRuns: 5 },
    );
    assert.deepEqual([...printed].sort(), Object.keys(READERS).sort(), "formats that were printed");
  });
});
