import assert from "node:assert/strict";

/** Returns the elements and texts of XML, or fails where it is not well-formed. */
export function readXml(text: string): readonly string[] {
  const open: string[] = [];
  const names: string[] = [];
  const body = text.replace(/^<\?xml version="1\.0" encoding="UTF-8"\?>\n/, "");
  for (const piece of body.split(/(<[^<>]*>)/)) {
    if (!piece.startsWith("<")) {
      assert.doesNotMatch(piece, /[<>]|&(?!#\d+;)/);
      continue;
    }
    const [, close, name = "", attributes = "", empty] =
      /^<(\/?)([a-z]+)((?: [a-z]+="[^"<>]*")*)(\/?)>$/.exec(piece) ?? [];
    assert.notEqual(name, "", piece);
    assert.doesNotMatch(attributes, /&(?!#\d+;)/);
    if (close === "/") assert.equal(open.pop(), name);
    else {
      names.push(name);
      if (empty !== "/") open.push(name);
    }
  }
  assert.deepEqual(open, []);
  return names;
}
