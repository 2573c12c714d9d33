import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { DirectorySource } from "../../../../../policyd/sources/directory/directory_source.ts";
import {
  type DirectoryEvent,
  type FileState,
  isObjectFile,
  type WatchedDirectory,
} from "../../../../../policyd/sources/directory/watched_directory.ts";
import { RecordingSink } from "../../../../support/daemon/recording_sink.ts";
import { manifest } from "../../../objects/gate/objects.ts";

const WHOLE = JSON.stringify(manifest("Pod", { status: { podIP: "10.0.0.2" } }));
/** Valid YAML too, but of a pod without an address. */
const TORN = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nstatus:\n";

interface MemoryFile {
  readonly text: string;
  readonly state: FileState;
}

/** An in-memory directory whose files are written step by step. */
class MemoryDirectory implements WatchedDirectory {
  readonly #clock: FakeClock;
  readonly #files = new Map<string, MemoryFile>();
  #writes = 0;
  #onEvent: ((event: DirectoryEvent, fileName: string | undefined) => void) | undefined;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Writes a file; "rename" is as if it had been written elsewhere and moved here, "untold" sends no event. */
  write(fileName: string, text: string, event: DirectoryEvent | "untold"): void {
    const state = { signature: String(++this.#writes), modifiedAt: this.#clock.time(), size: text.length };
    this.#files.set(fileName, { text, state });
    if (event !== "untold") this.#onEvent?.(event, fileName);
  }

  list(): readonly string[] {
    return [...this.#files.keys()].filter(isObjectFile);
  }

  look(fileName: string): FileState | undefined {
    return this.#files.get(fileName)?.state;
  }

  read(fileName: string): string {
    return this.#files.get(fileName)?.text ?? "";
  }

  follow(onEvent: (event: DirectoryEvent, fileName: string | undefined) => void): void {
    this.#onEvent = onEvent;
  }

  close(): void {
    this.#onEvent = undefined;
  }
}

describe("policyd/sources/directory/directory_source and unfinished writes", () => {
  let clock: FakeClock;
  let directory: MemoryDirectory;
  let source: DirectorySource;
  let sink: RecordingSink;

  beforeEach(() => {
    clock = new FakeClock();
    directory = new MemoryDirectory(clock);
    source = new DirectorySource(directory, clock);
    sink = new RecordingSink();
  });
  afterEach(() => {
    source.stop();
  });

  /** Lets this much time pass, in steps in which the source does its work. */
  async function pass(milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left--) {
      clock.pass(1);
      for (let i = 0; i < 5; i++) await turn();
    }
  }

  async function started(): Promise<void> {
    source.start(sink);
    await pass(5);
    assert.equal(sink.isSynced, true);
  }

  it("DAEMON-03: a file that is written in place is read when it has not changed for a moment", async () => {
    await started();
    directory.write("a.yaml", "", "rename");
    for (let i = 0; i < 10; i++) {
      directory.write("a.yaml", TORN, "change");
      await pass(40);
    }
    assert.deepEqual(sink.reported, ["synced"]);
    directory.write("a.yaml", WHOLE, "change");
    await pass(60);
    assert.deepEqual(sink.reported, ["synced", "set Pod default/web"]);
  });

  it("DAEMON-03: a file that is renamed into place is read at once", async () => {
    await started();
    directory.write("a.yaml", WHOLE, "rename");
    await pass(5);
    assert.deepEqual(sink.reported, ["synced", "set Pod default/web"]);
  });

  it("DAEMON-03: a file that changes all the time is read within two seconds", async () => {
    await started();
    for (let i = 0; i < 50; i++) {
      directory.write("a.yaml", WHOLE, "change");
      await pass(40);
    }
    assert.deepEqual(sink.reported, ["synced", "set Pod default/web"]);
  });

  it("DAEMON-03 DAEMON-09: after the clock is set back, earlier writes are read within two seconds and later ones as usual", async () => {
    await started();
    directory.write("a.yaml", WHOLE, "change");
    clock.set(-7_200_000);
    await pass(40);
    assert.deepEqual(sink.reported, ["synced"], "a file with a time in the future may still be written");
    await pass(1960);
    assert.deepEqual(sink.reported, ["synced", "set Pod default/web"]);
    directory.write("b.yaml", WHOLE.replaceAll("web", "other"), "change");
    await pass(60);
    assert.deepEqual(sink.reported.slice(2), ["set Pod default/other"]);
  });

  it("DAEMON-03: a change without a notification is found by the next read of the whole directory", async () => {
    await started();
    directory.write("a.yaml", WHOLE, "untold");
    await pass(5100);
    assert.deepEqual(sink.reported, ["synced", "set Pod default/web"]);
  });

  it("DAEMON-03: the first sync waits for a file that is being written", async () => {
    directory.write("a.yaml", TORN, "untold");
    source.start(sink);
    await pass(20);
    assert.deepEqual(sink.reported, []);
    directory.write("a.yaml", WHOLE, "change");
    await pass(120);
    assert.deepEqual(sink.reported, ["set Pod default/web", "synced"]);
  });
});
