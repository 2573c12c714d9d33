import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** Modules that only print or fail, and do not change the output. */
const WITHOUT_EFFECT = new Set(["failure", "build"]);

describe("test/setup: the builds", () => {
  for (const builder of ["build_daemon", "build_cli"]) {
    it(`${builder} makes its output again when one of its modules has changed`, () => {
      const text = readFileSync(new URL(`../../setup/${builder}.mjs`, import.meta.url), "utf8");
      const modules = [...text.matchAll(/ from "\.\/(\w+)\.mjs";/g)].map(([, name = ""]) => name);
      assert.ok(modules.includes("bundle"));
      for (const name of modules) {
        if (!WITHOUT_EFFECT.has(name))
          assert.ok(text.includes(`"test/setup/${name}.mjs"`), `${name} is not one of its sources`);
      }
    });
  }
});
