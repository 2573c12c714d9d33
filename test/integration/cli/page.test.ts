import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { markupText } from "../../../cli/output/markup.ts";
import { type Browser, type Page, startBrowser } from "../../support/cli/browser.ts";
import { memoryFiles, runCli } from "../../support/cli/cli.ts";
import { fixtureFiles } from "../../support/cli/golden.ts";
import { requireProgram } from "../../support/privilege.ts";

const IMAGES = "docs/images";
const SIZE = [1280, 860] as const;
/** File names that would run a script if they were not escaped. */
const ATTACKS = [
  `<img src=x onerror="window.attacked=1">`,
  `</script><script>window.attacked=1</script>`,
  `"><svg onload=window.attacked=1>`,
  `<!--<script>window.attacked=1</script>`,
  `'+(window.attacked=1)+'`,
];

const pod = (name: string): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "shop", labels: { app: name } },
  spec: { containers: [{ name: "c" }] },
});
const closed = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "p", namespace: "shop" },
  spec: { podSelector: {} },
};

describe("the page of -o html in Chromium", function () {
  this.timeout(120_000);
  let browser: Browser;
  let directory: string;

  before(async function () {
    requireProgram(this, "chromium");
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-page-"));
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    if (directory !== undefined) rmSync(directory, { recursive: true });
  });

  const open = (html: string): Promise<Page> => {
    const file = path.join(directory, "page.html");
    writeFileSync(file, html);
    return browser.open(pathToFileURL(file).href, ...SIZE);
  };
  const run = async (args: readonly string[], files = fixtureFiles("shop")): Promise<string> => {
    const { out, err } = await runCli([...args, "-o", "html"], files);
    assert.ok(out.startsWith("<!doctype html>"), err);
    return out;
  };
  const textOf = (page: Page, selector: string): Promise<unknown> =>
    page.ask(`document.querySelector(${JSON.stringify(selector)}).textContent`);
  /** Compares the size of a picture with the one in the documents. UPDATE_GOLDEN=1 writes the picture again. */
  const keep = (name: string, png: Buffer): void => {
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    const file = path.join(IMAGES, name);
    if (process.env["UPDATE_GOLDEN"] === "1") {
      mkdirSync(IMAGES, { recursive: true });
      writeFileSync(file, png);
    }
    assert.ok(existsSync(file), `${file} is missing: run this test once with UPDATE_GOLDEN=1`);
    assert.deepEqual(readFileSync(file).subarray(16, 24), png.subarray(16, 24), "its width and height");
  };
  const cell = (from: string, to: string): string => `td button[aria-label^="${from} → ${to}:"]`;

  it("PAGE-01: the heat map of a matrix shows each pair, and a click on a cell shows its explanation with file and line", async () => {
    const page = await open(await run(["policy", "matrix", "-f", "shop"]));
    assert.equal(await page.ask(`document.querySelectorAll("#heat tbody tr").length`), 15);
    await page.click(cell("shop/deployment/frontend", "shop/deployment/cart"));
    const said = String(await textOf(page, "#why"));
    assert.match(said, /^shop\/deployment\/frontend → shop\/deployment\/cart8080\/TCP/);
    assert.match(
      said,
      /ingress allowed by NetworkPolicy shop\/cart\s+ingress\[0\]\S* ports\[0\]\s+\(shop\/shop_policies\.yaml:34\)/,
    );
    assert.match(said, /drawbridge policy explain -f … --from shop\/deployment\/frontend --to shop\/deployment\/cart$/);
    keep("matrix-light.png", await page.picture());
    await page.prefer("dark");
    keep("matrix-dark.png", await page.picture());
    await page.click(cell("payments/deployment/api", "shop/statefulset/redis"));
    assert.match(String(await textOf(page, "#why")), /→ shop\/statefulset\/redisnothing.*isolated by/s);
    assert.deepEqual(page.messages, []);
  });

  it("PAGE-02: searching narrows rows and columns, and a click on a cell of the view by namespace shows the cell's pairs", async () => {
    const page = await open(await run(["policy", "matrix", "-f", "shop"]));
    const sizes = (): Promise<unknown> =>
      page.ask(
        `[document.querySelectorAll("#heat tbody tr").length, document.querySelectorAll("#heat thead th").length - 1]`,
      );
    await page.click("#from");
    await page.type("CART");
    assert.deepEqual(await sizes(), [1, 15]);
    await page.click("#to");
    await page.type("shop/");
    assert.deepEqual(await sizes(), [1, 4]);
    await page.ask(
      `for (const one of ["from", "to"]) { const input = document.getElementById(one); input.value = ""; input.dispatchEvent(new Event("input")); }`,
    );
    await page.click("#by");
    assert.deepEqual(await sizes(), [5, 5]);
    await page.click(cell("shop", "payments"));
    assert.deepEqual(await sizes(), [4, 2], "the pairs of the two namespaces");
    assert.match(String(await textOf(page, "#why")), /shop → payments1 of 8 pairs: something is allowed/);
  });

  it("PAGE-03: the page of a diff lists what opens and closes, and its cells show the reasons before and after", async () => {
    const files = fixtureFiles("tenants");
    const page = await open(await run(["policy", "diff", "tenants/before", "tenants/after"], files));
    assert.deepEqual(
      await page.ask(
        `[...document.querySelectorAll("#changes details")].map((one) => one.className).sort().filter((one, i, all) => all.indexOf(one) === i)`,
      ),
      ["closes", "opens"],
    );
    await page.click("#changes summary");
    assert.equal(await page.ask(`document.querySelector("#changes details").open`), true);
    await page.click(cell("blue/deployment/web", "blue/statefulset/db"));
    const said = String(await textOf(page, "#why"));
    assert.match(said, /opens 5433\/TCP/);
    assert.match(said, /before: ingress denied: .*after: {2}ingress allowed: /s);
    keep("diff-light.png", await page.picture());
    const tried = await open(
      await run(["policy", "dry-run", "--delete", "networkpolicy/blue/db", "--against", "tenants/after"], files),
    );
    assert.match(String(await textOf(tried, "header")), /deleted NetworkPolicy blue\/db.*no longer isolated/s);
    assert.equal(await tried.ask(`document.querySelectorAll("#changes details.opens").length > 0`), true);
  });

  it("PAGE-04: a page makes no request to the network, and writes nothing to the console", async () => {
    for (const args of [
      ["policy", "matrix", "-f", "shop"],
      ["policy", "matrix", "-f", "shop", "--by", "pod"],
    ]) {
      const page = await open(await run(args));
      await page.click("td button");
      assert.deepEqual([page.requests.length, page.messages], [1, []], page.requests.join(" "));
      assert.match(page.requests[0] ?? "", /^file:/);
    }
  });

  it("PAGE-05: file names that contain scripts are shown as text, and the page's policy blocks them if they are not escaped", async () => {
    const isAttacked = async (html: string): Promise<unknown> => {
      const page = await open(html);
      for (const selector of ["td button", "#by"]) await page.click(selector);
      return page.ask(`new Promise((resolve) => setTimeout(() => resolve(window.attacked === 1), 200))`);
    };
    const text = (...objects: readonly object[]): string => objects.map((one) => JSON.stringify(one)).join("\n");
    for (const attack of ATTACKS) {
      const name = `${attack}.json`;
      const files = memoryFiles({ [name]: text(pod("a"), pod("b"), closed), "old.json": text(pod("a"), pod("b")) });
      const matrix = await run(["policy", "matrix", "-f", name], files);
      const diff = await run(["policy", "diff", "old.json", name], files);
      for (const html of [matrix, diff]) {
        assert.equal(await isAttacked(html), false, attack);
        assert.ok(!attack.includes("<") || !html.includes(attack), attack);
      }
    }
    const [image = ""] = ATTACKS;
    const files = memoryFiles({ [image]: text(pod("a"), pod("b"), closed), "old.json": text(pod("a"), pod("b")) });
    const html = await run(["policy", "diff", "old.json", image], files);
    const unescaped = html.replaceAll(markupText(image), image);
    assert.notEqual(unescaped, html, "the name is in the page");
    const withoutPolicy = unescaped.replace(/<meta http-equiv[^>]*>/, "");
    assert.equal(await isAttacked(withoutPolicy), true, "without escaping and without the policy the name runs");
    assert.equal(await isAttacked(unescaped), false, "the policy keeps it from running");
  });
});
