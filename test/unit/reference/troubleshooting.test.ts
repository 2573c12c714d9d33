import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { doctorChecks, findingsIn } from "../../reference/troubleshooting/doctor_findings.ts";
import { readEntries } from "../../reference/troubleshooting/entries.ts";
import { eventReasons, explainedEvents } from "../../reference/troubleshooting/event_reasons.ts";
import { logMessages, messagesIn } from "../../reference/troubleshooting/log_messages.ts";
import { pluginErrors } from "../../reference/troubleshooting/plugin_errors.ts";
import { problemsIn, statusProblems } from "../../reference/troubleshooting/status_problems.ts";
import { textsOf, VALUE } from "../../reference/troubleshooting/texts.ts";

describe("entries of docs/troubleshooting.md", () => {
  const entries = readEntries();

  it("DOCS-05: every warning and error of the daemon's log has an entry, and every entry its message", () => {
    const messages = logMessages().map(({ words }) => words);
    assert.ok(messages.length > 60, String(messages.length));
    assert.deepEqual(Object.keys(entries.log).toSorted(), messages);
  });

  it("DOCS-05: every reason of an Event has a row in docs/events.md, and every row its reason", () => {
    assert.ok(eventReasons().length >= 10);
    assert.deepEqual([...explainedEvents().keys()].toSorted(), eventReasons());
  });

  it("DOCS-05: every problem that a component states has an entry, and every entry its text in the sources", () => {
    const found = statusProblems();
    assert.ok(found.length > 15, String(found.length));
    const all = Object.entries(entries.status);
    const ofScanner = all.flatMap(([words, { file }]) => (file === undefined ? [words] : []));
    assert.deepEqual(ofScanner.toSorted(), found);
    const ofFiles = all.flatMap(([words, { file }]) => (file === undefined ? [] : [[words, file] as const]));
    for (const [words, file] of ofFiles) {
      const source = readFileSync(file, "utf8").replaceAll(/["`]\s*\+\s*["`]/g, "");
      const missing = words.split(VALUE).filter((part) => !source.includes(part.trim()));
      assert.deepEqual(missing, [], `${words}: not in ${file}`);
    }
  });

  it("DOCS-05: every finding of the doctor has its words, its reason and its way out", () => {
    const checks = doctorChecks();
    for (const { id, findings } of checks) {
      assert.ok(findings.length > 0, `${id}: no finding was found in the sources`);
      const { what, way } = entries.doctor[id] ?? {};
      assert.equal(findings.filter((one) => one.what === undefined).length, what === undefined ? 0 : 1, `${id}: what`);
      assert.equal(findings.filter((one) => one.way.length === 0).length, way === undefined ? 0 : 1, `${id}: way out`);
      for (const { why, severities, what: words } of findings) {
        assert.notDeepEqual(why, [], `${id}: ${words?.[0]}`);
        assert.notDeepEqual(severities, [], `${id}: ${words?.[0]}`);
      }
    }
    const ids = new Set(checks.map(({ id }) => id));
    assert.deepEqual(
      Object.keys(entries.doctor).filter((id) => !ids.has(id)),
      [],
    );
  });

  it("DOCS-05: every error code of the plugin has an entry, and every entry its code", () => {
    const errors = pluginErrors();
    assert.deepEqual(Object.keys(entries.plugin).toSorted(), errors.map(({ name }) => name).toSorted());
    assert.deepEqual(errors.find(({ name }) => name === "HOST_PORT_TAKEN")?.details, ["ERR_HOST_PORT_TAKEN"]);
  });

  it("every entry is made of sentences", () => {
    const all = [entries.log, entries.status, entries.plugin].flatMap((group) => Object.entries(group));
    for (const [words, { meaning, way }] of all) {
      for (const text of [meaning, way]) assert.match(text, /^[A-Z`[].*\.$/, `${words}: ${text}`);
    }
  });
});

describe("texts in TypeScript", () => {
  const nothing = (): undefined => undefined;

  it("textsOf returns each text of a choice, and … for a value", () => {
    assert.deepEqual(textsOf('`a ${b.c} d ${e(`"${f}`)}`', nothing), ["a … d …"]);
    assert.deepEqual(textsOf('isHigh ? "high" : `low ${value}`', nothing), ["high", "low …"]);
    assert.deepEqual(textsOf('`is ${isHigh ? "higher" : "lower"}` + " now"', nothing), [
      "is higher now",
      "is lower now",
    ]);
    assert.deepEqual(textsOf('`${count} port${count === 1 ? "" : "s"}`', nothing), ["… ports"]);
    assert.deepEqual(textsOf('known ?? "unknown"', nothing), ["unknown"]);
    assert.equal(textsOf("answer.away", nothing), undefined);
  });

  it("messagesIn finds literals, constants, messages of a table, and what callers pass on", () => {
    const source = `
const LATE = "it is late";
const MESSAGES = { one: "the first", two: "the second" } as const;
class Part {
  #look(): void {
    logger.warn(LATE, { reason: "not this" });
    this.#parts.logger.error(MESSAGES[kind]);
    logger.info("only a notice");
    this.#failed(error, "it has failed; (really)");
  }

  #failed(error: unknown, message: string): void {
    logger?.error(message, { error });
  }
}
`;
    assert.deepEqual(
      [...messagesIn("part.ts", source)].map(({ level, words }) => `${level} ${words}`),
      ["warn it is late", "error the first", "error the second", "error it has failed; (really)"],
    );
  });

  it("messagesIn refuses a message that it cannot read, and names its place", () => {
    assert.throws(
      () => [...messagesIn("part.ts", "\nfunction tell(): void {\n  logger.warn(words());\n}\n")],
      /^Error: part\.ts:3: the message words\(\) is not a text; expected a literal or a constant of the file$/,
    );
  });

  it("problemsIn finds the texts of a method problems, with its constants", () => {
    const source = `
const SUBJECT = "part";
class Part {
  problems(): readonly string[] {
    return [\`\${SUBJECT}: it has failed: \${this.#error}; \` + "it is tried again", "x"];
  }

  other(): string {
    return "not a problem";
  }
}
`;
    assert.deepEqual(problemsIn(source), ["part: it has failed: …; it is tried again"]);
  });

  it("findingsIn gives each check its findings, also those of functions that it calls", () => {
    const source = `
export const one: Check = {
  id: "one",
  examine: (facts) => [missing("a file", "touch it"), { ...missing("a link", "add it"), severity: "info" }],
};

export const two: Check = {
  id: "two",
  examine: () => [{ severity: isBad ? "error" : "warning", what: words, why: "it is so", way: \`undo \${it}\` }],
};

function missing(what: string, way: string): Remark {
  return { severity: "error", what: \`\${what} is missing\`, why: "it is needed", way };
}
`;
    const shown = [...findingsIn(source)].map(([id, findings]) => [
      id,
      findings.map(({ what, severities, way }) => [what?.join(), severities.join(), way.join()].join("|")),
    ]);
    assert.deepEqual(shown, [
      ["one", ["a file is missing|error|touch it", "a link is missing|info|add it"]],
      ["two", ["|error,warning|undo …"]],
    ]);
  });
});
