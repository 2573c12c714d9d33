import assert from "node:assert/strict";
import { NodeProblems } from "../../../../policyd/events/node_problems.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";

describe("policyd/events/node_problems", () => {
  it("a problem is logged and becomes an Event about the node once while it lasts, and again when it comes back", () => {
    const [logger, events] = [recordingLogger(), recordingNotices()];
    const problems = new NodeProblems({ logger, events, nodeName: "n1" }, "RoutesProblem", "broken", "error");
    for (const present of [["a"], ["a", "b"], ["b"], ["a", "b"], []]) {
      problems.set(present);
      assert.deepEqual(problems.present, present);
    }
    assert.deepEqual(
      events.notices.map(({ regarding: { key }, reason, note }) => `${key} ${reason} ${note}`),
      ["n1 RoutesProblem a", "n1 RoutesProblem b", "n1 RoutesProblem a"],
    );
    assert.deepEqual(
      logger.lines.map(({ level, message, fields }) => [level, message, fields?.["reason"]]),
      ["a", "b", "a"].map((reason) => ["error", "broken", reason]),
    );
  });
});
