import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { realClock } from "../../../policyd/lib/clock.ts";
import { ApiSource } from "../../../policyd/sources/api/api_source.ts";
import { HttpConnection } from "../../../policyd/sources/api/connection/http_connection.ts";
import { CLUSTER_POLICY_DEFINITION, RESOURCES } from "../../../policyd/sources/api/resources.ts";
import { ServiceAccount } from "../../../policyd/sources/api/connection/service_account.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import { sample } from "../../apiserver/objects.ts";
import { type Certificate, makeCertificate } from "../../support/certificate.ts";
import { RecordingSink } from "../../support/daemon/recording_sink.ts";
import { until } from "../../support/until.ts";

const TOKEN = "first-t0ken";
/** How much faster the clock runs than the real one, so that waits of minutes take seconds. */
const SPEED = 40;

const fastClock = {
  now: () => realClock.now() * SPEED,
  time: () => realClock.time(),
  after: (milliseconds: number, action: () => void) => realClock.after(milliseconds / SPEED, action),
};

describe("an API server over the network", function () {
  this.timeout(300_000);
  let directory = "";
  let authority: Certificate;
  let server: ApiServerProcess;
  let address: URL;
  let sink: RecordingSink;
  let source: ApiSource;

  beforeEach(async () => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-api-"));
    authority = makeCertificate("authority");
    server = new ApiServerProcess();
    const certificate = makeCertificate("server", authority, "127.0.0.1");
    const { port } = await server.tell({ type: "listen", address: "127.0.0.1", port: 0, certificate });
    address = new URL(`https://127.0.0.1:${port}`);
    await server.tell({ type: "features", features: { token: TOKEN } });
    writeFileSync(path.join(directory, "token"), `${TOKEN}\n`);
    writeFileSync(path.join(directory, "ca.crt"), authority.certificate);
    const account = new ServiceAccount(directory, (file) => readFileSync(file, "utf8"));
    const connection = new HttpConnection(() => Promise.resolve().then(() => account.credentials(address)));
    sink = new RecordingSink();
    source = new ApiSource({ connection, clock: fastClock, random: () => Math.random() });
  });

  afterEach(async () => {
    source?.stop();
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Waits until the source has reported exactly the objects that the server holds. */
  async function untilEqual(): Promise<void> {
    const model = new Map(await server.model());
    // Maps are equal whatever their order.
    await until(() => isDeepStrictEqual(sink.objects, model), "equal", 60_000);
  }

  it("API-11: the source uses a token that is replaced in its file, and reports that a token is refused without printing it", async () => {
    await server.apply(sample("Pod", 1));
    source.start(sink);
    await untilEqual();
    await server.tell({ type: "features", features: { token: "second-t0ken" } });
    await server.tell({ type: "strike", fault: { type: "truncate", isReset: true } });
    await until(
      () => source.problems().some((problem) => /: 401 .*the server does not know who asks/.test(problem)),
      "401",
    );
    assert.doesNotMatch(source.problems().join("\n"), /t0ken/);
    await server.apply(sample("Pod", 2));
    writeFileSync(path.join(directory, "token"), "second-t0ken");
    await untilEqual();
    await until(() => source.problems().length === 0, "no problem");
  });

  it("API-11: the source sends no request to a server whose certificate has another authority, and reports the server", async () => {
    writeFileSync(path.join(directory, "ca.crt"), makeCertificate("another").certificate);
    source.start(sink);
    await until(() => source.problems().length > 0, "a problem");
    assert.match(source.problems().join("\n"), /expected a certificate of its authority/);
    assert.deepEqual((await server.tell({ type: "asked" })).asked, []);
    writeFileSync(path.join(directory, "ca.crt"), authority.certificate);
    await until(() => sink.isSynced, "synced");
  });

  it("DEPLOY-03: the source needs only the verbs list and watch on its resources, and reports missing verbs", async () => {
    const grants: Record<string, readonly string[]> = Object.fromEntries(
      RESOURCES.map(({ name }) => [name, ["list", "watch"]]),
    );
    // Of the resource that defines kinds, the source needs one object and no other.
    const { name, objectName = "" } = CLUSTER_POLICY_DEFINITION;
    grants[`${name}/${objectName}`] = ["list", "watch"];
    await server.tell({ type: "features", features: { grants: { ...grants, nodes: [] } } });
    await server.apply(...RESOURCES.map(({ kind }) => sample(kind, 1)));
    source.start(sink);
    await until(() => sink.objects.size === RESOURCES.length - 1, "all but nodes");
    assert.match(source.problems().join("\n"), /: nodes: 403 .*expected the verbs list and watch on nodes in all/);
    assert.equal(sink.isSynced, false);
    await server.tell({ type: "features", features: { grants } });
    await untilEqual();
    assert.ok(sink.isSynced);
  });
});
