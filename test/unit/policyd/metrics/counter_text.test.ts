import assert from "node:assert/strict";
import { counterText } from "../../../../policyd/metrics/counter_text.ts";

const HEAD = "# HELP name_total Packets that were counted.\n# TYPE name_total counter\n";
const counter = { name: "name_total", help: "Packets that were counted.", labels: ["port", "rule"] } as const;

describe("policyd/metrics/counter_text", () => {
  it("the text has one head and a line for each series, in pieces of 500 lines", () => {
    const series = Array.from({ length: 1000 }, (_, rule) => ({ port: "http", rule, packets: 2 * rule }));
    const pieces = [...counterText(counter, series, "packets")];
    assert.equal(pieces.length, 2);
    const lines = series.map(({ rule, packets }) => `name_total{port="http",rule="${rule}"} ${packets}\n`);
    assert.equal(pieces.join(""), `${HEAD}${lines.join("")}`);
  });

  it("the text without series has only its head", () => {
    assert.deepEqual([...counterText(counter, [], "packets")], [HEAD]);
  });

  it("a label cannot end its quotes or its line", () => {
    const hostile = { port: 'a"} 9\n# x\\', rule: 0, packets: 1 };
    const text = [...counterText(counter, [hostile], "packets")].join("");
    assert.equal(text, String.raw`${HEAD}name_total{port="a\"} 9\n# x\\",rule="0"} 1` + "\n");
  });
});
