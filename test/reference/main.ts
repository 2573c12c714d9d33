import { readFileSync, writeFileSync } from "node:fs";
import { REFERENCES } from "./references.ts";

for (const { path, write } of REFERENCES) {
  const before = readFileSync(path, "utf8");
  const after = write(before);
  if (after !== before) writeFileSync(path, after);
  console.log(`${path}: ${after === before ? "as it was" : "written"}`);
}
