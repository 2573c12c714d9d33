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
const SIZE: readonly [number, number] = [1280, 860];
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

  const open = (html: string, width = SIZE[0], height = SIZE[1]): Promise<Page> => {
    const file = path.join(directory, "page.html");
    writeFileSync(file, html);
    return browser.open(pathToFileURL(file).href, width, height);
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

  it("PAGE-01: searching narrows rows and columns, and a click on a cell of the view by namespace shows the cell's pairs", async () => {
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

  it("PAGE-10: of 104 workloads the page shows namespaces first, and the answer, the corner and the heads stay in view at every size", async () => {
    const workload = (namespace: string, name: string): string =>
      `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ${name}, namespace: ${namespace}}\nspec: {selector: {matchLabels: {app: ${name}}}, template: {metadata: {labels: {app: ${name}}}, spec: {containers: [{name: c}]}}}\n---\n`;
    const all = Array.from({ length: 104 }, (_, i) => workload(`team-${i % 13}`, `svc-${i}`)).join("");
    const html = await run(["policy", "matrix", "-f", "a.yaml"], memoryFiles({ "a.yaml": all }));
    for (const [width, height] of [
      [1300, 1000],
      [400, 800],
    ] as const) {
      const page = await open(html, width, height);
      assert.equal(await page.ask(`document.querySelectorAll("#heat tbody tr").length`), 14);
      await page.click("#by");
      assert.equal(await page.ask(`document.querySelectorAll("#heat tbody tr").length`), 106);
      assert.equal(await page.ask(`document.querySelectorAll("#heat button[tabindex='0']").length`), 1);
      assert.equal(await page.ask(`document.querySelectorAll("#heat th:not([scope])").length`), 0);
      await page.ask(`document.querySelector(".heat").scrollTo(2000, 2000)`);
      await page.click(cell("team-9/deployment/svc-100", "team-9/deployment/svc-87"));
      const [top, bottom] = (await page.ask(
        `(() => { const { top } = document.querySelector("#why h3").getBoundingClientRect(); return [top, innerHeight]; })()`,
      )) as [number, number];
      assert.ok(top >= 0 && top < bottom - 20, `${width}: the answer is at ${top} of ${bottom}`);
      const corner = await page.ask(
        `(() => { const { left, top, width, height } = document.querySelector("#heat thead th").getBoundingClientRect(); return document.elementFromPoint(left + width / 2, top + height / 2).textContent; })()`,
      );
      assert.equal(corner, "from \\ to");
      assert.equal(await page.ask(`document.documentElement.scrollWidth <= innerWidth`), true);
    }
  });

  it("PAGE-14: the heat map is one stop of Tab, and arrow keys move between cells, past those that are empty", async () => {
    const page = await open(await run(["policy", "matrix", "-f", "shop"]));
    const press = (key: string): Promise<unknown> =>
      page.ask(
        `(() => { document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: ${JSON.stringify(key)}, bubbles: true })); return document.activeElement.getAttribute("aria-label").split(":")[0]; })()`,
      );
    await page.ask(`document.querySelector("#heat button[tabindex='0']").focus()`);
    assert.equal(await press("ArrowRight"), "kube-system/deployment/coredns → monitoring/daemonset/node-exporter");
    assert.equal(await press("ArrowDown"), "monitoring/daemonset/node-exporter → monitoring/daemonset/node-exporter");
    // A single pod says nothing of itself.
    assert.equal(await press("ArrowRight"), "monitoring/daemonset/node-exporter → monitoring/statefulset/prometheus");
    assert.equal(await press("ArrowDown"), "payments/deployment/api → monitoring/statefulset/prometheus");
    assert.equal(await press("Home"), "payments/deployment/api → monitoring/statefulset/prometheus");
    assert.equal(await page.ask(`document.querySelectorAll("#heat button[tabindex='0']").length`), 1);
  });

  it("PAGE-01: a search finds whole words before parts of words, a click on namespaces shows only these, and clearing brings the hint back", async () => {
    const of = (namespace: string, name: string): object => ({
      ...pod(name),
      metadata: { name, namespace, labels: { app: name } },
    });
    const objects = [of("red", "web"), of("red", "api"), of("blue", "redis"), of("blue", "red-cache")].map((one) =>
      JSON.stringify(one),
    );
    const page = await open(
      await run(["policy", "matrix", "-f", "a.json"], memoryFiles({ "a.json": objects.join("\n") })),
    );
    const rows = (): Promise<unknown> =>
      page.ask(`[...document.querySelectorAll("#heat tbody th")].map((one) => one.textContent).join(" ")`);
    const search = (text: string): Promise<unknown> =>
      page.ask(
        `(() => { const one = document.getElementById("from"); one.value = ${JSON.stringify(text)}; one.dispatchEvent(new Event("input")); })()`,
      );
    await page.click("#by");
    await page.click(cell("red", "red"));
    assert.equal(await rows(), "red/api red/web");
    for (const [text, expected] of [
      ["red", "blue/red-cache red/api red/web"],
      ["redi", "blue/redis"],
      ["red/", "red/api red/web"],
    ] as const) {
      await search(text);
      assert.equal(await rows(), expected, text);
    }
    await search("zzz");
    assert.match(String(await textOf(page, "#why")), /Nothing here has this name/);
    await search("");
    assert.match(String(await textOf(page, "#why")), /^Choose a cell/);
  });

  it("PAGE-14: texts have a contrast of 4.5 and the edges of empty cells one of 3, light and dark", async () => {
    const pages = [
      await open(await run(["policy", "matrix", "-f", "shop"])),
      await open(await run(["policy", "diff", "tenants/before", "tenants/after"], fixtureFiles("tenants"))),
    ];
    const contrasts = `(() => {
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = (text) => rgb(text).slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
      const ground = (node) => { for (let one = node; one; one = one.parentElement) { const { backgroundColor } = getComputedStyle(one); if ((rgb(backgroundColor)[3] ?? 1) > 0) return backgroundColor; } return "rgb(255, 255, 255)"; };
      const found = [];
      for (const one of document.querySelectorAll("header p, .key, #why p, th, summary, summary b, li, footer, td button:not(.none)"))
        if (ratio(getComputedStyle(one).color, ground(one)) < 4.5) found.push(one.className + " " + one.textContent.slice(0, 20));
      for (const one of document.querySelectorAll("td button")) if (ratio(getComputedStyle(one).borderTopColor, ground(one.parentElement)) < 3) found.push("edge");
      return [...new Set(found)];
    })()`;
    for (const page of pages) {
      await page.ask(`for (const one of document.querySelectorAll("details")) one.open = true`);
      for (const scheme of ["light", "dark"] as const) {
        await page.prefer(scheme);
        assert.deepEqual(await page.ask(contrasts), [], scheme);
      }
    }
  });

  it("DIFF-05: the page of a diff lists what opens and closes, and its cells show the reasons before and after", async () => {
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

  it("PAGE-05: a page makes no request to the network, and writes nothing to the console", async () => {
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
