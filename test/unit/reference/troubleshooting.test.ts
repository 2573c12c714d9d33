import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ACTIONS } from "../../../policyd/events/notice.ts";
import { readEntries, wordsOf } from "../../reference/troubleshooting/entries.ts";
import { logMessages, messagesIn } from "../../reference/troubleshooting/log_messages.ts";
import { pluginErrors } from "../../reference/troubleshooting/plugin_errors.ts";
import { statusProblems } from "../../reference/troubleshooting/status_problems.ts";
import { VALUE } from "../../reference/troubleshooting/texts.ts";

describe("entries of docs/troubleshooting.md", () => {
  const entries = readEntries();

  it("DOCS-05: every warning and error of the daemon's log has an entry, and every entry its message", () => {
    const messages = logMessages();
    assert.ok(messages.length > 60, String(messages.length));
    assert.deepEqual(wordsOf(entries.log).toSorted(), messages);
  });

  it("DOCS-05: every reason of an Event has a row in docs/events.md, and every row its reason", () => {
    const rows = readFileSync("docs/events.md", "utf8").matchAll(/^\| `(\w+)` \| .+? \| .+ \|$/gm);
    const explained = [...rows].map(([, reason = ""]) => reason);
    assert.ok(explained.length >= 10);
    assert.deepEqual(explained.toSorted(), Object.keys(ACTIONS).toSorted());
  });

  it("DOCS-05: every problem that a component states has an entry, and every entry its text in the sources", () => {
    const found = statusProblems();
    assert.ok(found.length > 15, String(found.length));
    const { files } = entries.status;
    assert.deepEqual(wordsOf(entries.status).toSorted(), [...found, ...Object.keys(files)].toSorted());
    for (const [words, file] of Object.entries(files)) {
      const source = readFileSync(file, "utf8").replaceAll(/["`]\s*\+\s*["`]/g, "");
      const missing = words.split(VALUE).filter((part) => !source.includes(part.trim()));
      assert.deepEqual(missing, [], `${words}: not in ${file}`);
    }
  });

  it("DOCS-05: every error code of the plugin has an entry, and every entry its code", () => {
    const errors = pluginErrors();
    assert.deepEqual(Object.keys(entries.plugin).toSorted(), errors.map(({ name }) => name).toSorted());
    assert.deepEqual(errors.find(({ name }) => name === "HOST_PORT_TAKEN")?.details, ["ERR_HOST_PORT_TAKEN"]);
  });

  it("every entry is made of sentences", () => {
    const { log, status, plugin } = entries;
    const all = [
      ...[log.single, status.single, plugin].flatMap((group) => Object.entries(group)),
      ...[...log.alike, ...status.alike].map((group) => [group.title, group] as const),
    ];
    for (const [words, { meaning, way }] of all) {
      for (const text of [meaning, ...(way === undefined ? [] : [way])])
        assert.match(text, /^[A-Z`[].*\.$/, `${words}: ${text}`);
    }
  });
});

describe("texts in TypeScript", () => {
  it("messagesIn refuses a message that it cannot read, and names its place", () => {
    assert.throws(
      () => [...messagesIn("part.ts", "\nfunction tell(): void {\n  logger.warn(words());\n}\n")],
      /^Error: part\.ts:3: the message words\(\) is not a text; expected a literal or a constant of the file$/,
    );
  });
});
