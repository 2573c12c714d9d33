import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** They say what is done, or what went wrong, and change nothing of what is made. */
const WITHOUT_EFFECT = new Set(["failure", "build"]);

describe("test/setup: the builds", () => {
  for (const builder of ["build_daemon", "build_cli"]) {
    it(`${builder} makes its output anew when one of the modules that make it has changed`, () => {
      const text = readFileSync(new URL(`../../setup/${builder}.mjs`, import.meta.url), "utf8");
      const modules = [...text.matchAll(/ from "\.\/(\w+)\.mjs";/g)].map(([, name = ""]) => name);
      assert.ok(modules.includes("bundle"));
      for (const name of modules) {
        if (!WITHOUT_EFFECT.has(name))
          assert.ok(text.includes(`"test/setup/${name}.mjs"`), `${name} is no source of it`);
      }
    });
  }
});
