import assert from "node:assert/strict";
import type { EndpointSeries } from "../../../../policyd/metrics/endpoint_connections.ts";
import { endpointText } from "../../../../policyd/metrics/endpoint_text.ts";

const labels = { namespace: "default", service: "web", port: "http", protocol: "TCP", endpoint: "10.0.0.1:80" };

describe("policyd/metrics/endpoint_text", () => {
  it("the text has one head and a line for each endpoint, in pieces", () => {
    const series = Array.from({ length: 1200 }, (_, i): EndpointSeries => ({ labels, connections: i }));
    const pieces = [...endpointText(series)];
    assert.equal(pieces.length, 3);
    const lines = pieces.join("").split("\n");
    assert.equal(lines.length, 1203);
    assert.match(lines[0] ?? "", /^# HELP drawbridge_service_endpoint_connections_total \S/);
    assert.equal(lines[1], "# TYPE drawbridge_service_endpoint_connections_total counter");
    const head = "drawbridge_service_endpoint_connections_total";
    const expected = 'namespace="default",service="web",port="http",protocol="TCP",endpoint="10.0.0.1:80"';
    assert.equal(lines[1201], `${head}{${expected}} 1199`);
    assert.equal(lines.filter((line) => line.startsWith("#")).length, 2);
  });

  it("the text without endpoints has only its head", () => {
    assert.equal([...endpointText([])].join("").split("\n").length, 3);
  });

  it("a label cannot end its quotes or its line", () => {
    const hostile = { ...labels, port: 'a"} 9\n# x\\' };
    const [, , line = "", ...rest] = [...endpointText([{ labels: hostile, connections: 1 }])].join("").split("\n");
    assert.ok(line.includes(String.raw`port="a\"} 9\n# x\\",protocol`), line);
    assert.deepEqual(rest, [""]);
  });
});
