import assert from "node:assert/strict";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import type { CompiledService } from "../../../../policyd/services/elements/compile_service.ts";
import { servedExternalIpWarning } from "../../../../policyd/services/problem_report.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const NOTHING: CompiledService = {
  claims: [],
  ignoredEndpoints: [],
  problems: [],
  refused: [],
  served: [],
  lacksRoom: false,
  withoutLocal: new Set(),
};

describe("policyd/services: the warning about external IPs that are served", () => {
  const logger = recordingLogger();
  const events = recordingNotices();
  const warning = servedExternalIpWarning(logger, events);

  function reported(name: string, spec: string): number {
    const before = logger.lines.length;
    const text = `
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: default}
spec: {ports: [{port: 80}], ${spec}}
`;
    for (const object of readScenario(text)) if (object.kind === "Service") warning.compiled(object, NOTHING);
    return logger.lines.length - before;
  }

  it("BAD-02 EVENT-07: a Service with externalIPs gets one log line and one Event, which names the way out, whatever else of it changes", () => {
    assert.equal(reported("a", "clusterIP: 10.96.0.1"), 0);
    assert.equal(reported("a", 'clusterIP: 10.96.0.1, externalIPs: ["198.51.100.7", "198.51.100.8"]'), 1);
    assert.deepEqual(logger.lines.at(-1), {
      level: "warn",
      message: "a Service takes traffic to its externalIPs; set refuseExternalIPs to ignore them",
      fields: { service: "default/a", externalIPs: "198.51.100.7, 198.51.100.8", count: 2 },
    });
    assert.equal(logger.namespaces.at(-1), "default", "the line is paced in its author's namespace (SHARE-06)");
    assert.equal(reported("a", 'clusterIP: 10.96.0.1, externalIPs: ["198.51.100.9"]'), 0);
    assert.equal(reported("b", 'clusterIP: 10.96.0.2, externalIPs: ["198.51.100.9"]'), 1);
    assert.equal(events.notices.length, logger.lines.length);
    const [{ regarding, reason, note } = assert.fail()] = events.notices;
    assert.deepEqual([regarding.kind, regarding.key, reason], ["Service", "default/a", "ExternalIPsServed"]);
    assert.equal(
      note,
      "Service default/a: spec.externalIPs: takes traffic to 198.51.100.7, 198.51.100.8; set refuseExternalIPs to ignore them",
    );
  });

  it("BAD-02: a headless Service with externalIPs is not warned of, and a deleted one that is created again is", () => {
    assert.equal(reported("headless", 'clusterIP: None, externalIPs: ["198.51.100.7"]'), 0);
    warning.removed("default/b");
    assert.equal(reported("b", 'clusterIP: 10.96.0.2, externalIPs: ["198.51.100.9"]'), 1);
  });
});
