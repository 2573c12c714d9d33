import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { configurationTable } from "../../reference/configuration_table.ts";
import { exportedMetrics } from "../../reference/metrics_table.ts";
import { REFERENCES } from "../../reference/references.ts";
import { tableOf, withTable } from "../../reference/table.ts";

describe("generated references", () => {
  for (const { path, write } of REFERENCES) {
    it(`DAEMON-04 METRIC-09: ${path} agrees with the sources; if not: npm run docs`, () => {
      const text = readFileSync(path, "utf8");
      assert.equal(text, write(text));
    });
  }

  it("DAEMON-04: every field is described, with its default", () => {
    const table = configurationTable(readFileSync("docs/configuration.md", "utf8"));
    for (const row of table.split("\n").slice(2)) assert.match(row, / \| .{10,}\. \|$/);
    assert.match(table, /^\| `nodeName` \| none, required \| /m);
    assert.match(table, /^\| `markBits.masquerade` \| `0x10000000` \| /m);
    assert.match(table, /^\| `tcpReset` \| `false` \| /m);
  });

  it("DAEMON-04: docs/configuration.md shows a file that is accepted", () => {
    const [, example = ""] = /```yaml\n([^`]+)```/.exec(readFileSync("docs/configuration.md", "utf8")) ?? [];
    assert.equal(readConfiguration({ path: "example.yaml", text: example }, {}).minSyncPeriod, 500);
  });

  it("METRIC-09: names, units and types follow Prometheus' conventions, and each metric has a help text", () => {
    // prometheus.io/docs/practices/naming and instrumentation
    const metrics = exportedMetrics();
    assert.ok(metrics.length > 30, String(metrics.length));
    assert.equal(new Set(metrics.map(({ name }) => name)).size, metrics.length);
    for (const { name, type, labels, help } of metrics) {
      assert.match(name, /^(drawbridge|process)_[a-z]+(_[a-z]+)*$/);
      assert.equal(name.endsWith("_total"), type === "counter", name);
      if (type === "histogram" || /_(duration|staleness|cpu|timestamp|start_time)/.test(name)) {
        assert.match(name, /_seconds(_total)?$/);
      }
      if (/memory/.test(name)) assert.match(name, /_bytes$/);
      assert.doesNotMatch(
        name,
        /milli|micro|_(ms|us|ns|kb|mb|minutes|percent|count|sum|bucket|gauge|counter)(_|$)/,
        name,
      );
      assert.match(help, /^[A-Z0-9].{9,}\.$/, name);
      for (const label of labels) {
        assert.match(label, /^[a-z]+(_[a-z]+)*$/, name);
        assert.ok(!["le", "quantile", "job", "instance"].includes(label), `${name}: ${label} is Prometheus' own`);
      }
    }
  });

  it("withTable replaces a table and keeps the text around it", () => {
    const text = "before\n\n| a | b |\n|---|---|\n| 1 |  |\n| 2 | x |\n\n| c |\n|---|\nafter\n";
    const table = tableOf(["a", "b"], [["3|4", ""]]);
    assert.equal(
      withTable(text, ["a", "b"], table),
      "before\n\n| a | b |\n|---|---|\n| 3\\|4 | |\n\n| c |\n|---|\nafter\n",
    );
    assert.throws(() => withTable(text, ["x"], table), /no table with the columns x/);
  });
});
