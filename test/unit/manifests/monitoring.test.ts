import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parse, stringify } from "yaml";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { requireProgram } from "../../support/privilege.ts";

const DIRECTORY = "manifests/monitoring";
/** The files with cases for promtool. */
const CASES = ["rules_test.yaml", "rules_day_test.yaml"] as const;

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}
interface Rules {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Alert[] }[];
}
interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
}

const read = (name: string): string => readFileSync(path.join(DIRECTORY, name), "utf8");
const rules = (): Rules => parse(read("rules.yaml")) as Rules;
const alerts = (): readonly Alert[] => rules().groups.flatMap((group) => group.rules);
const dashboard = (): Dashboard => JSON.parse(read("dashboard.json")) as Dashboard;
const queries = (): readonly string[] => dashboard().panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

/** Returns the metrics that the reference lists, with their labels. */
function reference(): ReadonlyMap<string, readonly string[]> {
  const text = readFileSync("docs/metrics.md", "utf8");
  return new Map(
    [...text.matchAll(/^\| `([a-z_]+)` \| ([^|]*)\|/gm)].flatMap(([, name = "", labels = ""]) => {
      const own = [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label);
      const ends = text.includes(`\`${name}\` is a histogram`) ? ["_bucket", "_sum", "_count"] : [];
      return [name, ...ends.map((end) => name + end)].map((one): readonly [string, readonly string[]] => [
        one,
        ends.length > 0 ? [...own, "le"] : own,
      ]);
    }),
  );
}

/**
 * Returns variants of an alert's expression. In each, one threshold is lowered to the next value that must not alert.
 */
function eagerOnes(expr: string): readonly string[] {
  return [...expr.matchAll(/(==|>) (\d+)/g)].map(({ 0: found, 1: operator, 2: threshold, index }) => {
    const isCounted = expr.startsWith("increase(") || expr.startsWith("sum by");
    const lower = operator === "==" ? `<= ${threshold}1` : isCounted ? `> ${Number(threshold) / 2}` : `>= ${threshold}`;
    return `${expr.slice(0, index)}${lower}${expr.slice(index + found.length)}`;
  });
}

describe("manifests/monitoring", () => {
  const directory = useTemporaryDirectory();

  it("MON-01: alerts and dashboard only use metrics and labels in docs/metrics.md", () => {
    const known = reference();
    assert.ok(known.size > 40, String(known.size));
    for (const expr of [...alerts().map((one) => one.expr), ...queries()]) {
      const names = expr.match(/\b(drawbridge|process)_[a-z_]+/g) ?? [];
      assert.ok(names.length > 0, expr);
      for (const name of names) assert.ok(known.has(name), `${name} in ${expr}`);
      const labels = new Set([...names.flatMap((name) => known.get(name) ?? []), "instance", "job"]);
      const asked = [...expr.matchAll(/(?:by|on) ?\(([^)]*)\)/g)].flatMap(([, list = ""]) =>
        list.split(",").map((one) => one.trim()),
      );
      const chosen = [...expr.matchAll(/[{,]\s*(\w+)=/g)].map(([, label = ""]) => label);
      for (const label of [...asked, ...chosen]) assert.ok(labels.has(label), `${label} in ${expr}`);
    }
    for (const { annotations, expr } of alerts()) {
      const labels = new Set([
        ...(expr.match(/\bdrawbridge_[a-z_]+/g) ?? []).flatMap((name) => known.get(name) ?? []),
        "instance",
      ]);
      const text = `${annotations.summary} ${annotations.description}`;
      for (const [, label = ""] of text.matchAll(/\$labels\.(\w+)/g))
        assert.ok(labels.has(label), `${label} in ${text}`);
    }
  });

  it("MON-01: every alert has a unique name, a severity, a sentence with the node, and the way out", () => {
    const all = alerts();
    assert.equal(new Set(all.map(({ alert }) => alert)).size, all.length);
    for (const { alert, labels, annotations } of all) {
      assert.match(alert, /^Drawbridge[A-Z]/);
      assert.ok(["critical", "warning", "info"].includes(labels.severity), alert);
      assert.match(annotations.summary, /\.$/, alert);
      assert.match(annotations.summary, /\$labels\.instance/, alert);
      assert.ok(annotations.description.length > 40, alert);
    }
  });

  it("MON-01: the PrometheusRule has the same alerts as the file for Prometheus itself", () => {
    const { spec } = parse(read("prometheus_rule.yaml")) as { readonly spec: unknown };
    assert.deepEqual(spec, rules());
  });

  it("MON-01: promtool accepts the alerts, and they fire and stay silent as their cases say", function () {
    requireProgram(this, "promtool");
    const checked = spawnSync("promtool", ["check", "rules", "rules.yaml"], { cwd: DIRECTORY, encoding: "utf8" });
    assert.equal(checked.status, 0, checked.stderr);
    const tested = spawnSync("promtool", ["test", "rules", ...CASES], { cwd: DIRECTORY, encoding: "utf8" });
    assert.equal(tested.status, 0, tested.stdout + tested.stderr);
  });

  it("MON-01: each alert has a case in which it fires and one, near its threshold, in which it is silent", function () {
    requireProgram(this, "promtool");
    this.timeout(300_000);
    const cases = CASES.map((file) => ({
      file,
      all: parse(read(file)) as {
        readonly tests: readonly { readonly alert_rule_test: readonly { readonly alertname: string }[] }[];
      },
    }));
    /** Returns the files of cases for a variant of an alert, in a directory of their own. */
    const casesOf = (name: string, change: Partial<Alert>): readonly string[] => {
      const own = mkdtempSync(path.join(directory(), "variant-"));
      const groups = rules().groups.map((group) => ({
        ...group,
        rules: group.rules.filter(({ alert }) => alert === name).map((one) => ({ ...one, ...change })),
      }));
      writeFileSync(path.join(own, "rules.yaml"), JSON.stringify({ groups }));
      return cases.flatMap(({ file, all }) => {
        const tests = all.tests
          .map((one) => ({
            ...one,
            alert_rule_test: one.alert_rule_test.filter(({ alertname }) => alertname === name),
          }))
          .filter((one) => one.alert_rule_test.length > 0);
        if (tests.length === 0) return [];
        writeFileSync(path.join(own, file), JSON.stringify({ ...all, tests }));
        return [path.join(own, file)];
      });
    };
    const variants = alerts().flatMap(({ alert, expr, for: duration }) => [
      { what: `${alert} as it stands`, fails: false, files: casesOf(alert, {}) },
      {
        what: `${alert} never fires`,
        fails: true,
        files: casesOf(alert, { expr: `(${expr}) and on () (vector(0) > 1)` }),
      },
      ...eagerOnes(expr).map((eager) => ({ what: eager, fails: true, files: casesOf(alert, { expr: eager }) })),
      ...(duration === "0m"
        ? []
        : [{ what: `${alert} fires at once`, fails: true, files: casesOf(alert, { for: "0m" }) }]),
    ]);
    // One promtool for all: its start takes longer than the cases of a variant.
    const files = variants.flatMap((one) => one.files);
    const { stdout } = spawnSync("promtool", ["test", "rules", ...files], { encoding: "utf8" });
    const results = [...stdout.matchAll(/^Unit Testing: +(\S+)\n( {2}SUCCESS$)?/gm)];
    assert.deepEqual(
      results.map(([, file]) => file),
      files,
    );
    const failed = new Set(results.flatMap(([, file, success]) => (success === undefined ? [file] : [])));
    for (const one of variants)
      assert.equal(
        one.files.some((file) => failed.has(file)),
        one.fails,
        one.what,
      );
  });

  it("MON-01: each query of the dashboard is valid PromQL, and panels do not overlap", function () {
    const { panels, templating } = dashboard();
    const places = new Set<string>();
    for (const { title, gridPos } of panels) {
      const { x, y, w, h } = gridPos;
      assert.ok(x + w <= 24, title);
      for (let column = x; column < x + w; column++) {
        for (let row = y; row < y + h; row++) {
          assert.ok(!places.has(`${column} ${row}`), title);
          places.add(`${column} ${row}`);
        }
      }
    }
    assert.deepEqual(
      templating.list.map(({ name }) => name),
      ["datasource", "node"],
    );
    requireProgram(this, "promtool");
    const recorded = queries().map((expr, i) => ({
      record: `panel:query:${i}`,
      expr: expr.replaceAll("$__rate_interval", "5m").replaceAll("$node", ".*"),
    }));
    writeFileSync(
      path.join(directory(), "queries.yaml"),
      stringify({ groups: [{ name: "dashboard", rules: recorded }] }),
    );
    const { status, stdout, stderr } = spawnSync("promtool", ["check", "rules", "queries.yaml"], {
      cwd: directory(),
      encoding: "utf8",
    });
    assert.equal(status, 0, stdout + stderr);
  });

  it("DEPLOY-01: the PodMonitor selects the daemon's pods and reads the port that its component opens", () => {
    const component = "manifests/components/pod-monitor";
    const { spec } = parse(readFileSync(`${component}/pod_monitor.yaml`, "utf8")) as {
      spec: { selector: object; podMetricsEndpoints: readonly { port: string }[] };
    };
    const { patches } = parse(readFileSync(`${component}/kustomization.yaml`, "utf8")) as {
      patches: readonly { patch: string }[];
    };
    const added = patches.flatMap(({ patch }) => (parse(patch) as { value: unknown }[]).map(({ value }) => value));
    assert.deepEqual(added, [
      "--metrics-address=[::]:9873",
      { name: spec.podMetricsEndpoints[0]?.port, containerPort: 9873, protocol: "TCP" },
    ]);
    const daemon = parse(readFileSync("manifests/base/daemon_set.yaml", "utf8")) as { spec: { selector: object } };
    assert.deepEqual(spec.selector, daemon.spec.selector);
  });
});
