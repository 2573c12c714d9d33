import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { type FailureCause, noteFailure } from "../../../../cni/status/failure_record.ts";
import {
  AttachmentFailures,
  type RecordedFailure,
  recordedFailures,
} from "../../../../policyd/attachments/failures.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";

const failing = (network: string, cause: FailureCause, seconds = 7): RecordedFailure => ({
  network,
  cause,
  seconds,
  reason: "the reason",
});

describe("policyd/attachments/failures", () => {
  const directory = useTemporaryDirectory();

  function follow(initial: readonly RecordedFailure[] = []) {
    let now = initial;
    const clock = new FakeClock();
    const events = recordingNotices();
    const parts = { recorded: () => now, clock, logger: recordingLogger(), events, nodeName: "n1" };
    const failures = new AttachmentFailures(parts);
    failures.begin();
    const see = (...seen: readonly RecordedFailure[]): void => {
      now = seen;
      clock.pass(5000);
    };
    return { failures, events, clock, see };
  }

  it("STATUS-05: causes that alternate are reported once each, for each network separately", () => {
    const { failures, events, see } = follow();
    for (let round = 0; round < 5; round++) {
      see(failing("pods", "daemon"), failing("others", "ports"));
      see(failing("pods", "other"), failing("others", "ports"));
    }
    assert.equal(events.notices.length, 3);
    assert.equal(failures.problems().length, 2);
    assert.deepEqual(
      failures.seconds().map(({ network, cause, seconds }) => [network, cause, seconds]),
      [
        ["pods", "daemon", 0],
        ["pods", "other", 7],
        ["others", "ports", 7],
      ],
    );
  });

  describe("the plugin's failure files", () => {
    const path = (kind: string, network = "pods"): string => `${directory()}/failures/${kind}/${network}.json`;
    const list = () => recordedFailures(fakeNode(directory()), directory())();
    const note = (kind: "attach" | "full", cause: FailureCause, network = "pods"): void =>
      noteFailure(fakeNode(directory()), directory(), network, kind, { reason: "x", cause });

    it('STATUS-05: both kinds of failure are read, the node\'s first, and a record without a cause has the class "other"', () => {
      assert.deepEqual(list(), []);
      note("full", "addresses");
      assert.deepEqual(
        list().map(({ network, cause }) => [network, cause]),
        [["pods", "addresses"]],
      );
      note("attach", "daemon");
      note("full", "ports", "second");
      assert.deepEqual(
        list().map(({ network, cause }) => [network, cause]),
        [
          ["pods", "daemon"],
          ["second", "ports"],
        ],
      );
      writeFileSync(path("attach"), readFileSync(path("attach"), "utf8").replace(/,"cause":"daemon"/, ""));
      assert.equal(list()[0]?.cause, "other");
    });

    it("STATUS-05: torn, large, foreign and old failure files do not count, and a pipe in their place blocks nothing", () => {
      note("full", "addresses");
      const noted = readFileSync(path("full"), "utf8");
      const { last, since } = JSON.parse(noted) as { readonly last: number; readonly since: number };
      assert.equal(list().length, 1);
      for (const text of [
        noted.slice(0, -1),
        "",
        "[]",
        noted.replace(/"bootId":"[^"]*"/, '"bootId":"another"'),
        `${noted.slice(0, -1)}${" ".repeat(10_000)}}`,
        JSON.stringify({ ...(JSON.parse(noted) as object), since: since - 301, last: last - 301 }),
      ]) {
        writeFileSync(path("full"), text);
        assert.deepEqual(list(), [], text.slice(0, 100));
      }
      rmSync(path("full"));
      writeFileSync(`${directory()}/target`, noted);
      symlinkSync(`${directory()}/target`, path("full"));
      assert.deepEqual(list(), [], "a symbolic link");
      rmSync(path("full"));
      execFileSync("mkfifo", [path("full")]);
      assert.deepEqual(list(), [], "a pipe");
      writeFileSync(path("full", "bad name"), noted);
      writeFileSync(`${directory()}/failures/full/.pods.json`, noted);
      mkdirSync(path("full", "directory"));
      assert.deepEqual(list(), [], "other names");
      rmSync(`${directory()}/failures/full`, { recursive: true });
      writeFileSync(`${directory()}/failures/full`, "");
      assert.deepEqual(list(), [], "a file in the place of the directory");
    });

    it("STATUS-05: at most 64 networks are followed", () => {
      for (let i = 0; i < 70; i++) note("full", "addresses", `n${i}`);
      assert.equal(list().length, 64);
    });
  });
});
