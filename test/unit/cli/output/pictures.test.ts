import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { VERSION } from "../../../../policyd/version.ts";
import { inMarkdown, markdownCode, markdownTable, markupText } from "../../../../cli/output/markup.ts";
import { formatPage } from "../../../../cli/output/page/page.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { assertGolden, fixtureFiles } from "../../../support/cli/golden.ts";
import { ask, pod } from "../../../support/cli/objects.ts";

const EVIL = `a/<b>"x'&\`|\n\u202e${"n".repeat(60)}`;
describe("cli/output: pictures, pages and Markdown", () => {
  it("PAGE-05: in HTML no text from input is markup, or has control or bidirectional characters", () => {
    const heat = {
      rows: [EVIL],
      columns: [EVIL],
      cells: [{ row: 0, column: 0, state: "all", text: EVIL, why: EVIL }],
    } as const;
    const change = { state: "opens", word: EVIL, head: EVIL, lines: [EVIL] } as const;
    const page = [
      ...formatPage({ title: EVIL, facts: [EVIL], heat, legend: [["all", EVIL]], changes: [change] }, [EVIL]),
    ].join("");
    assert.ok(!page.includes('<b>"'), page);
    assert.ok(!page.includes("\u202e") && page.includes("&#60;b&#62;&#34;x&#39;&#38;&#96;|\\u{a}\\u{202e}"), page);
    assert.equal(markupText(`<&>"'\``), "&#60;&#38;&#62;&#34;&#39;&#96;");
  });

  it("PAGE-05: the page's content policy allows only its own script by the hash, and loads nothing", () => {
    const heat = { rows: [], columns: [], cells: [] };
    const page = [...formatPage({ title: "t", facts: [], heat, legend: [], changes: [] }, [])].join("");
    const [, policy = ""] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
    const scripts = [...page.matchAll(/<script>([^]*?)<\/script>/g)].map(([, text = ""]) => text);
    assert.equal(scripts.length, 1);
    const hash = createHash("sha256")
      .update(scripts[0] ?? "")
      .digest("base64");
    assert.equal(
      policy,
      `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'`,
    );
  });

  it("PAGE-15: the foot of each command's page says what was read, when, and the version", async () => {
    const files = memoryFiles({
      "a.yaml": "kind: Pod\napiVersion: v1\nmetadata: { name: a, namespace: x }\n",
      "b.yaml": "",
    });
    for (const [args, sources] of [
      [["matrix", "-f", "a.yaml"], "a.yaml"],
      [["diff", "a.yaml", "b.yaml"], "a.yaml, b.yaml"],
      [["dry-run", "-f", "b.yaml", "--against", "a.yaml"], "b.yaml, a.yaml"],
    ] as const) {
      const { out, err } = await runCli(["policy", ...args, "-o", "html"], files);
      const [, read, time = "", version] =
        /<footer>Read from (.*) at (.*) UTC by Drawbridge (.*?)\. This/.exec(out) ?? [];
      assert.deepEqual([read, version], [sources, VERSION], err);
      assert.ok(Math.abs(Date.now() - Date.parse(`${time}Z`)) < 60_000, time);
    }
  });

  it("PAGE-09: in Markdown names are code with any backticks and bars, and cells stay cells", () => {
    assert.equal(markdownCode("shop/web"), "`shop/web`");
    assert.equal(markdownCode("a`b"), "`` a`b ``");
    assert.equal(markdownCode("``"), "``` `` ```");
    assert.equal(markdownCode("a|b\n@c"), "`a\\|b\\u{a}@c`");
    assert.equal(
      markdownTable([inMarkdown`a`, inMarkdown`b`], [[inMarkdown`1`, inMarkdown`2`]]),
      "| a | b |\n| --- | --- |\n| 1 | 2 |\n",
    );
  });

  for (const args of [
    ["policy", "matrix", "-f", "shop"],
    ["policy", "matrix", "-f", "shop", "--by", "pod"],
  ]) {
    it(`PAGE-09: ${args.join(" ")} -o md is a grid where it is small, or else the pairs`, async () => {
      const { out } = await runCli([...args, "-o", "md"], fixtureFiles("shop"));
      assertGolden(`output/matrix${args.length > 4 ? "_pod" : ""}.md.txt`, out);
    });
  }

  it("PAGE-10: a page holds 600 rows and columns, and shows the namespaces of more", async () => {
    for (const [count, rows] of [
      [598, "p597"],
      [601, ""],
    ] as const) {
      const pods = Array.from({ length: count }, (_, i) => pod(`x/p${i}`)).join("");
      const { code, out, err } = await ask(pods, "policy", "matrix", "-o", "html");
      assert.equal(code, 0);
      assert.equal(out.includes(`"x/${rows}"`), rows !== "");
      assert.equal(/^more than 600 rows or columns: namespaces are shown/m.test(err), rows === "");
    }
  }).timeout(60_000);
});
