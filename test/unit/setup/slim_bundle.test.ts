import assert from "node:assert/strict";
import { Script } from "node:vm";
import { SetupFailure } from "../../setup/failure.mjs";
import { slimBundle } from "../../setup/slim_bundle.mjs";

describe("setup: the daemon's bundle in memory", () => {
  it("is of ASCII alone and says the same", () => {
    const code = 'const all=["é…😀",/[ä-ü]/.test("ö"),`\\\\é`,"plain"];all';
    const slim = slimBundle(code);
    assert.match(slim, /^[\0-\x7f]*$/);
    assert.deepEqual(evaluated(slim), ["é…😀", true, "\\é", "plain"]);
  });

  it("refuses a character behind a backslash, where an escape would be another text", () => {
    assert.throws(() => slimBundle('"\\é"'), SetupFailure);
  });

  it("takes Node's HTTP module without reading all of it, wherever and by whatever name it is imported", () => {
    const code =
      'use(a,b);import a from"node:http";import{createServer as b,get}from"http";import*as d from"http";import c from"node:net";';
    const taken =
      'const a=process.getBuiltinModule("node:http");const {createServer:b,get}=process.getBuiltinModule("node:http");const d=process.getBuiltinModule("node:http");';
    assert.equal(slimBundle(code), `${taken}use(a,b);import c from"node:net";`);
    assert.equal(
      slimBundle(`#!/usr/bin/env node\n${code}`),
      `#!/usr/bin/env node\n${taken}use(a,b);import c from"node:net";`,
    );
  });

  it("refuses an import of it that it does not know", () => {
    assert.throws(() => slimBundle('import http,{get}from"node:http";'), SetupFailure);
    assert.throws(() => slimBundle('export*from"http";'), SetupFailure);
  });
});

function evaluated(code: string): unknown {
  const result: unknown = new Script(code).runInNewContext();
  return JSON.parse(JSON.stringify(result));
}
