import assert from "node:assert/strict";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { judge } from "../../../../../objects/gate/gate.ts";
import { type ClusterObject, KINDS } from "../../../../../objects/model.ts";
import { ApiSource } from "../../../../../policyd/sources/api/api_source.ts";
import { RESOURCES } from "../../../../../policyd/sources/api/resources.ts";
import { Api, type Asked, selectorOf } from "../../../../apiserver/api.ts";
import { MemoryConnection } from "../../../../apiserver/memory_connection.ts";
import { sample } from "../../../../apiserver/objects.ts";
import type { RawObject } from "../../../../apiserver/storage.ts";
import { randomFrom } from "../../../../support/random.ts";
import { RecordingSink } from "../../../../support/daemon/recording_sink.ts";

/** The number of lists that a source follows: every kind, and the definition of one. */
export const FOLLOWED = RESOURCES.length + 1;

/** A source in a world whose clock only the test moves. */
export class World {
  readonly clock = new FakeClock();
  readonly api = new Api(this.clock);
  readonly sink = new RecordingSink();
  readonly connection: MemoryConnection;
  readonly source: ApiSource;

  constructor(seed = 1) {
    const random = randomFrom(seed);
    this.connection = new MemoryConnection(this.api, this.clock, () => 1 + Math.floor(random() ** 4 * 4000));
    this.source = new ApiSource({ connection: this.connection, clock: this.clock, random });
  }

  start(): void {
    this.source.start(this.sink);
  }

  /** The requests that are made during the action. */
  asked(action: () => void): readonly string[] {
    const before = this.api.asked.length;
    action();
    return this.api.asked.slice(before).map(({ verb, url }) => `${verb} ${new URL(url, "http://a").pathname}`);
  }

  /** The model by a direct read of the server, through the same gate. */
  direct(): ReadonlyMap<string, ClusterObject> {
    const objects = new Map<string, ClusterObject>();
    for (const { path, labelSelector } of RESOURCES) {
      for (const object of this.api.storage.list(path)) {
        if (!selectorOf(labelSelector ?? "")(object)) continue;
        const verdict = judge(object);
        if (verdict.type !== "accepted") throw new Error(JSON.stringify(verdict));
        objects.set(`${verdict.object.kind} ${verdict.object.key}`, verdict.object);
      }
    }
    return objects;
  }

  assertEqual(): void {
    const sorted = (objects: ReadonlyMap<string, ClusterObject>): unknown =>
      [...objects].sort(([a], [b]) => (a < b ? -1 : 1));
    const { objects } = this.sink;
    assert.deepEqual(sorted(objects), sorted(this.direct()));
    for (const object of objects.values()) assert.equal(this.source.find(object.kind, object.key), object);
    assert.equal(
      KINDS.reduce((sum, kind) => sum + this.source.count(kind), 0),
      objects.size,
    );
  }
}

export const oneOfEach = (): readonly RawObject[] => RESOURCES.map(({ kind }) => sample(kind, 1));

/** Whether a request only probes if the server is back. */
export function isProbe({ url }: Asked): boolean {
  return /[?&](limit|timeoutSeconds)=1(&|$)/.test(url);
}
