import assert from "node:assert/strict";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { problemReport } from "../../../../policyd/services/problem_report.ts";
import { compileAll, readScenario } from "../../../support/services/scenario.ts";

function manifest(externalIp: string, endpoint: string): string {
  const labels = { "kubernetes.io/service-name": "web" };
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web" },
    spec: { clusterIP: "10.96.0.1", externalIPs: [externalIp], ports: [{ port: 80 }] },
  };
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: "web-1", labels },
    addressType: "IPv4",
    ports: [{ port: 80 }],
    endpoints: [{ addresses: [endpoint] }],
  };
  return [service, slice].map((object) => `---\n${JSON.stringify(object)}\n`).join("");
}

describe("policyd/services: the log of problems", () => {
  it("EVENT-07 BAD-01 NOSEL-06: each problem is logged once while it lasts, and again when it comes back", () => {
    const logger = recordingLogger();
    const events = recordingNotices();
    const log = problemReport(logger, events);
    const apply = (text: string): readonly string[] => {
      const before = logger.lines.length;
      for (const service of readScenario(text)) {
        const compiled = compileAll(readScenario(text), "node1").get(service.key);
        if (service.kind === "Service" && compiled !== undefined) log.compiled(service, compiled);
      }
      return logger.lines.slice(before).map(({ fields }) => String(fields["reason"]));
    };
    const special = "Service default/web: spec.externalIPs: 127.0.0.1; expected an address that a machine can have";
    const endpoint = "Service default/web: endpoints' addresses: 169.254.1.1; expected ones that a machine can have";
    assert.deepEqual(apply(manifest("192.0.2.1", "10.244.1.7")), []);
    assert.deepEqual(apply(manifest("127.0.0.1", "10.244.1.7")), [special]);
    assert.deepEqual(apply(manifest("127.0.0.1", "169.254.1.1")), [endpoint]);
    assert.deepEqual(apply(manifest("127.0.0.1", "169.254.1.1")), []);
    assert.deepEqual(apply(manifest("192.0.2.1", "169.254.1.1")), []);
    assert.deepEqual(apply(manifest("127.0.0.1", "169.254.1.1")), [special]);
    log.removed("default/web");
    assert.deepEqual(apply(manifest("127.0.0.1", "169.254.1.1")), [special, endpoint]);
    assert.deepEqual(
      events.notices.map(({ note }) => note),
      logger.lines.map(({ fields }) => fields["reason"]),
    );
    const theirs = logger.lines.map(() => "default");
    assert.deepEqual(logger.namespaces, theirs, "each line is paced in its author's namespace (SHARE-06)");
    const [{ regarding, reason } = assert.fail()] = events.notices;
    assert.deepEqual([regarding.kind, regarding.key, reason], ["Service", "default/web", "ServiceNotServed"]);
  });
});
