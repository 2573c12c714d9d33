import assert from "node:assert/strict";
import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { realClock } from "../../../../../policyd/lib/clock.ts";
import { DirectorySource } from "../../../../../policyd/sources/directory/directory_source.ts";
import { RealDirectory } from "../../../../../policyd/sources/directory/watched_directory.ts";
import { useTemporaryDirectory } from "../../../../support/ipam/address_store.ts";
import { RecordingSink } from "../../../../support/daemon/recording_sink.ts";
import { manifest } from "../../../objects/gate/objects.ts";
import { until } from "../../../../support/until.ts";

const pod = (ip: string, name = "web") => JSON.stringify(manifest("Pod", { status: { podIP: ip } }, { name }));

describe("policyd/sources/directory/directory_source", () => {
  const base = useTemporaryDirectory();
  let directory: string;
  let source: DirectorySource;
  let sink: RecordingSink;

  beforeEach(() => {
    directory = `${base()}/objects`;
    mkdirSync(directory);
    source = new DirectorySource(new RealDirectory(directory), realClock);
    sink = new RecordingSink();
  });
  afterEach(() => {
    source.stop();
  });

  const write = (name: string, text: string): void => {
    writeFileSync(`${directory}/${name}`, text);
  };
  const replace = (name: string, text: string): void => {
    write(`.${name}.new`, text);
    renameSync(`${directory}/.${name}.new`, `${directory}/${name}`);
  };
  const addressOf = (name = "web"): unknown => {
    const object = sink.objects.get(`Pod default/${name}`);
    return object?.kind === "Pod" ? object.addresses[0] : undefined;
  };
  const started = async (): Promise<void> => {
    source.start(sink);
    await until(() => sink.isSynced, "synced");
  };
  const holds = (ip: string, name?: string): Promise<void> =>
    until(() => addressOf(name) === parseAddress(ip), `${name ?? "web"} has ${ip}`);

  it("DAEMON-03: the source reports all objects, then the sync, then each change", async () => {
    write("a.json", pod("10.0.0.1"));
    write("b.yaml", "# nothing\n");
    write(".hidden.json", pod("10.0.0.9", "hidden"));
    write("notes.txt", pod("10.0.0.9", "notes"));
    mkdirSync(`${directory}/c.yaml`);
    await started();
    assert.deepEqual(sink.reported, ["set Pod default/web", "synced"]);
    assert.match(sink.problems.join(), /^c\.yaml: no regular file/);
    replace("a.json", pod("10.0.0.2"));
    await holds("10.0.0.2");
    rmSync(`${directory}/a.json`);
    await until(() => sink.objects.size === 0, "the object is gone");
    assert.deepEqual(sink.reported.slice(2), ["set Pod default/web", "delete Pod default/web"]);
  });

  it("DAEMON-02: a broken file keeps its objects, is reported once, and is read again when it is corrected", async () => {
    write("a.yaml", pod("10.0.0.1"));
    await started();
    replace("a.yaml", "kind: [");
    await until(() => sink.problems.length > 0, "the problem is reported");
    assert.match(source.problems().join(), /^a\.yaml: line 1: .*its last good version stays/);
    replace("b.json", pod("10.0.0.2", "other"));
    await holds("10.0.0.2", "other");
    assert.equal(addressOf(), parseAddress("10.0.0.1"));
    assert.equal(sink.problems.length, 1);
    replace("a.yaml", pod("10.0.0.3"));
    await holds("10.0.0.3");
    assert.deepEqual(source.problems(), []);
  });

  it("DAEMON-02: objects stay while the directory is away, and its successor is followed", async () => {
    write("a.json", pod("10.0.0.1"));
    await started();
    renameSync(directory, `${directory}.old`);
    await until(() => source.problems().length > 0, "the missing directory is reported");
    assert.equal(addressOf(), parseAddress("10.0.0.1"));
    mkdirSync(directory);
    write("a.json", pod("10.0.0.2"));
    await holds("10.0.0.2");
    replace("a.json", pod("10.0.0.3"));
    await holds("10.0.0.3");
    assert.deepEqual(source.problems(), []);
  });

  it("DAEMON-03: after hundreds of random writes, renames and deletions the objects are those of the files", async function () {
    this.timeout(30_000);
    await started();
    const expected = new Map<string, string>();
    for (let i = 0; i < 600; i++) {
      const name = `f${(i * 7) % 23}`;
      const ip = `10.0.${i >> 8}.${i & 255}`;
      if (i % 5 === 0) {
        rmSync(`${directory}/${name}.json`, { force: true });
        expected.delete(name);
      } else {
        (i % 2 === 0 ? write : replace)(`${name}.json`, pod(ip, name));
        expected.set(name, ip);
      }
      if (i % 10 === 0) await pause(1);
    }
    await until(
      () =>
        sink.objects.size === expected.size &&
        [...expected].every(([name, ip]) => addressOf(name) === parseAddress(ip)),
      "the objects are those of the files",
    );
    assert.deepEqual(source.problems(), []);
  });

  it("DAEMON-01: a file that is not text and one that is too large are reported, and the others are read", async () => {
    write("a.json", pod("10.0.0.1"));
    writeFileSync(`${directory}/b.json`, Uint8Array.of(0xff, 0xfe));
    closeSync(openSync(`${directory}/c.yaml`, "w"));
    writeFileSync(`${directory}/d.yaml`, "#".repeat(17 * 1024 * 1024));
    await started();
    await holds("10.0.0.1");
    assert.match(source.problems().join("\n"), /b\.json: not UTF-8/);
    assert.match(source.problems().join("\n"), /d\.yaml: 17825792 bytes; expected at most 16777216/);
  });
});
