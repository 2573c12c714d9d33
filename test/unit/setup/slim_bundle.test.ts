import assert from "node:assert/strict";
import { Script } from "node:vm";
import { SetupFailure } from "../../setup/failure.mjs";
import { slimBundle } from "../../setup/slim_bundle.mjs";

describe("setup: the daemon's bundle in memory", () => {
  it("has only ASCII characters and the same meaning", () => {
    const code = 'const all=["é…😀",/[ä-ü]/.test("ö"),`\\\\é`,"plain"];all';
    const slim = slimBundle(code);
    assert.match(slim, /^[\0-\x7f]*$/);
    assert.deepEqual(evaluated(slim), ["é…😀", true, "\\é", "plain"]);
  });

  it("refuses a character after a backslash, where an escape would be another text", () => {
    assert.throws(() => slimBundle('"\\é"'), SetupFailure);
  });

  it("has getBuiltinModule in place of each import of Node's modules, at any place and by any names", () => {
    const code =
      'use(a,b);import a from"node:http";import{createServer as b,get}from"http";import*as d from"timers/promises";import c from"koffi";';
    const taken =
      'const a=globalThis.process.getBuiltinModule("node:http");const {createServer:b,get}=globalThis.process.getBuiltinModule("node:http");' +
      'const d=globalThis.process.getBuiltinModule("node:timers/promises");';
    assert.equal(slimBundle(code), `${taken}use(a,b);import c from"koffi";`);
    assert.equal(
      slimBundle(`#!/usr/bin/env node\n${code}`),
      `#!/usr/bin/env node\n${taken}use(a,b);import c from"koffi";`,
    );
    assert.equal(slimBundle('import x from"fs-extra";'), 'import x from"fs-extra";');
  });

  it("refuses an import of Node's modules in a form that it does not know", () => {
    assert.throws(() => slimBundle('import http,{get}from"node:http";'), SetupFailure);
    assert.throws(() => slimBundle('export*from"http";'), SetupFailure);
    assert.throws(() => slimBundle('export{join}from"node:path";'), SetupFailure);
    assert.throws(() => slimBundle('import"fs";'), SetupFailure);
  });
});

function evaluated(code: string): unknown {
  const result: unknown = new Script(code).runInNewContext();
  return JSON.parse(JSON.stringify(result));
}
