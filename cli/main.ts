#!/usr/bin/env node
import process from "node:process";
import packageJson from "../package.json" with { type: "json" };

// An older Node cannot load the program, but it can say so: this file imports nothing else before.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const [oldestMajor = 0, oldestMinor = 0] = (packageJson.engines.node.match(/\d+/g) ?? []).map(Number);
if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  const words = `the command line needs Node ${oldestMajor}.${oldestMinor} or later; the executable of a release needs none`;
  process.stderr.write(`drawbridge: this is Node ${process.versions.node}; ${words}\n`);
  process.exitCode = 3;
} else {
  void import("./start.ts").then(({ start }) => start());
}
