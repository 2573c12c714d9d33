import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { anchorsOf, linksOf } from "../../support/markdown.ts";

const NOT_OURS = new Set(["node_modules", "dist", "test-results", ".git"]);

/** Returns every document of the project, relative to it. */
function documents(): readonly string[] {
  return globSync("**/*.md", { exclude: (name) => NOT_OURS.has(path.basename(name)) }).sort();
}

/** Returns the problem of a link in a document; undefined if there is none or the link is external. */
function problemOf(document: string, link: string): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(link)) return undefined;
  const [file = "", anchor] = link.split("#");
  const target = file === "" ? document : path.join(path.dirname(document), decodeURI(file));
  if (target.startsWith("..") || path.isAbsolute(file)) return "leaves the project";
  if (!existsSync(target)) return "no such file";
  if (anchor === undefined) return undefined;
  if (!target.endsWith(".md")) return "an anchor in what is no document";
  return anchorsOf(readFileSync(target, "utf8")).has(anchor) ? undefined : "no such heading";
}

describe("links between the documents", () => {
  for (const document of documents()) {
    it(`DOCS-02: every link of ${document} leads to an existing file and heading`, () => {
      const links = linksOf(readFileSync(document, "utf8"));
      const broken = links.flatMap((link) => {
        const problem = problemOf(document, link);
        return problem === undefined ? [] : [`${link}: ${problem}`];
      });
      assert.deepEqual(broken, []);
    });
  }

  it("DOCS-02: every document of docs/ is reached from README.md", () => {
    const reached = new Set(["README.md"]);
    for (const document of reached) {
      for (const link of linksOf(readFileSync(document, "utf8"))) {
        const [file = ""] = link.split("#");
        const target = path.join(path.dirname(document), file);
        if (file.endsWith(".md") && existsSync(target)) reached.add(target);
      }
    }
    assert.ok(reached.size > 10, [...reached].join(", "));
    assert.deepEqual(
      documents().filter((document) => document.startsWith("docs/") && !reached.has(document)),
      [],
    );
  });

  it("missing files, headings and anchors are found", () => {
    assert.equal(problemOf("docs/cli.md", "configuration.md"), undefined);
    assert.equal(problemOf("docs/cli.md", "nowhere.md"), "no such file");
    assert.equal(problemOf("docs/cli.md", "configuration.md#fragments"), undefined);
    assert.equal(problemOf("docs/cli.md", "configuration.md#nowhere"), "no such heading");
    assert.equal(problemOf("README.md", "../x.md"), "leaves the project");
    assert.deepEqual(linksOf("[a](b.md#c) `[no](x)` ![p](q.png)\n```\n[no](y)\n```\n[d]: e.md\n"), [
      "b.md#c",
      "q.png",
      "e.md",
    ]);
    assert.deepEqual([...anchorsOf("# A `b` c.d, E\n## X\n## X\n```\n# no\n```\n")], ["a-b-cd-e", "x", "x-1"]);
  });
});
