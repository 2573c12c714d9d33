import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import nock from "nock";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import type { Write, WriteOutcome } from "../../../../policyd/api_write/api_writer.ts";
import { ANSWER_MILLISECONDS, HttpApiWriter } from "../../../../policyd/api_write/http_api_writer.ts";
import { FakeClock } from "../../../support/fake_clock.ts";

// nock replaces Node's HTTP client on import; this gives other tests their own client back.
nock.restore();

const SERVER = "https://cluster.test:6443";
const PATH = "/apis/events.k8s.io/v1/namespaces/shop/events";
const EVENT: Write = { method: "POST", path: PATH, body: JSON.stringify({ kind: "Event" }) };

describe("policyd/api_write/http_api_writer", () => {
  let clock: FakeClock;
  let asked = 0;

  beforeEach(() => {
    clock = new FakeClock();
    asked = 0;
    nock.activate();
  });
  afterEach(() => {
    nock.cleanAll();
    nock.restore();
  });

  const writer = (): HttpApiWriter =>
    new HttpApiWriter(() => {
      const Authorization = `Bearer t0ken${++asked}`;
      return Promise.resolve({ server: new URL(SERVER), options: { headers: { Authorization } } });
    }, clock);

  async function answered(status: number, message = "", headers: Record<string, string> = {}): Promise<WriteOutcome> {
    nock(SERVER).post(PATH).reply(status, { kind: "Status", message }, headers);
    const outcome = await writer().write(EVENT);
    assert.equal(clock.pending, 0);
    return outcome;
  }

  it("EVENT-05: an Event is posted to its namespace's list, with new credentials for each request", async () => {
    const one = writer();
    for (const token of ["t0ken1", "t0ken2"]) {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      nock(SERVER, { reqheaders: headers }).post(PATH, { kind: "Event" }).reply(201, EVENT.body);
      assert.deepEqual(await one.write(EVENT), { type: "written", status: 201 });
    }
  });

  it("EVENT-05: each status of an answer has its outcome", async () => {
    assert.deepEqual(await answered(200), { type: "written", status: 200 });
    const forbidden = { type: "forbidden", status: 403, reason: "403 (no right)" };
    assert.deepEqual(await answered(403, "no right"), forbidden);
    const right = 'events.events.k8s.io is forbidden: User "policyd" cannot create resource "events"';
    assert.equal((await answered(403, right)).type, "forbidden");
    for (const words of [
      'events.events.k8s.io "x" is forbidden: exceeded quota: q',
      'webhook "w" denied the request: no',
    ])
      assert.equal((await answered(403, words)).type, "rejected", words);
    for (const status of [302, 400, 404, 413, 422])
      assert.equal((await answered(status)).type, "rejected", `${status}`);
    for (const status of [401, 408, 409, 500, 503]) assert.equal((await answered(status)).type, "failed", `${status}`);
    assert.deepEqual(await answered(429, "slow down", { "Retry-After": "7" }), {
      type: "failed",
      status: 429,
      reason: "429 (slow down)",
      retryAfter: 7,
    });
  });

  it("EVENT-05: a request that cannot be made is a failure whose reason does not contain the token", async () => {
    nock(SERVER).post(PATH).replyWithError("connect ECONNREFUSED 192.0.2.1:6443");
    const reason = "connect ECONNREFUSED 192.0.2.1:6443";
    assert.deepEqual(await writer().write(EVENT), { type: "failed", reason, retryAfter: undefined });
    const none = new HttpApiWriter(() => Promise.reject(new DrawbridgeError("ERR_CONFIGURATION", "no token")), clock);
    assert.deepEqual(await none.write(EVENT), { type: "failed", reason: "no token", retryAfter: undefined });
  });

  it("EVENT-05: a missing answer and missing credentials both end in a timeout", async () => {
    nock(SERVER).post(PATH).delay(3_600_000).reply(201);
    const never = new HttpApiWriter(() => new Promise(() => {}), clock);
    for (const one of [writer(), never]) {
      const outcome = one.write(EVENT);
      for (let left = 5; left > 0; left--) await turn();
      clock.pass(ANSWER_MILLISECONDS);
      assert.deepEqual(await outcome, { type: "failed", reason: "no answer in time", retryAfter: undefined });
    }
    nock.abortPendingRequests();
  });

  it("EVENT-06: stopping the writer ends the request that is under way", async () => {
    nock(SERVER).post(PATH).delay(3_600_000).reply(201);
    const one = writer();
    const outcome = one.write(EVENT);
    for (let left = 5; left > 0; left--) await turn();
    one.stop();
    assert.equal((await outcome).type, "failed");
    assert.equal(clock.pending, 0);
    nock.abortPendingRequests();
  });
});
