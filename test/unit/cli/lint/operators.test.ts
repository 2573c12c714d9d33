import assert from "node:assert/strict";
import { ask, manifest, named, networkPolicy, object } from "../../../support/cli/objects.ts";

const EXPORTER = manifest(
  "Deployment",
  named("monitoring/exporter"),
  "spec: { template: { metadata: { labels: { app.kubernetes.io/name: exporter } }, spec: { containers: [{ name: c, image: i }] } } }",
);
const policy = (labels: string): string =>
  networkPolicy(
    "monitoring/exporter",
    "podSelector: { matchLabels: { app.kubernetes.io/name: exporter } }, " +
      `ingress: [{ from: [{ podSelector: { matchLabels: { ${labels} } } }], ports: [{ port: 8080 }] }]`,
  );
const resource = (kind: string): string => object("monitoring.coreos.com/v1", kind, named("monitoring/main"));
const lint = async (text: string): Promise<number> => (await ask(text, "policy", "lint")).code;

describe("cli/policy/lint: pods that an operator creates from an object of the files", () => {
  for (const [kind, labels] of [
    ["Prometheus", "app.kubernetes.io/name: prometheus"],
    ["Alertmanager", "alertmanager: main"],
    ["ThanosRuler", "app.kubernetes.io/name: thanos-ruler"],
    ["Prometheus", "app.kubernetes.io/name: prometheus, app.kubernetes.io/part-of: stack"],
  ] as const) {
    it(`LINT-10: a peer with ${labels} is information where the files have a ${kind}, and a warning without it`, async () => {
      assert.equal(await lint(resource(kind) + EXPORTER + policy(labels)), 0);
      assert.equal(await lint(EXPORTER + policy(labels)), 1);
      assert.equal(await lint(resource("Grafana") + EXPORTER + policy(labels)), 1);
    });
  }
});
