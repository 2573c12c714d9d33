import { rawHtml } from "../markup.ts";

/**
 * The page's script. It draws the heat map from the data in the page, by workload or by namespace, narrows it to the
 * names in the search fields, and shows the explanation of a clicked cell. Names and texts become only text nodes.
 */
export const PAGE_SCRIPT = rawHtml`"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("heat");
  const why = document.getElementById("why");
  const by = document.getElementById("by");
  const inputs = { from: document.getElementById("from"), to: document.getElementById("to") };
  const cells = new Map(data.cells.map((cell) => [cell[0] * data.columns.length + cell[1], cell]));
  const boxOf = (name) => (name.startsWith("outside") ? "outside" : name.split("/", 1)[0]);
  const make = (name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const say = (head, text, reason, command) => {
    why.replaceChildren(make("h3", head), make("p", text));
    if (reason) why.append(make("pre", reason));
    if (command) {
      const line = make("p", "The same on the command line: ");
      line.append(make("code", command));
      why.append(line);
    }
  };
  const hint = [...why.childNodes];
  // Whole words count first: "red" is not "redis". "red/" begins a name.
  const numbered = (names, text) => {
    const wanted = text.trim().toLowerCase();
    const all = names.map((name, index) => ({ name, index, low: name.toLowerCase() }));
    if (wanted === "") return all;
    if (wanted.endsWith("/")) return all.filter(({ low }) => low.startsWith(wanted));
    const exact = all.filter(({ low }) => low === wanted || low.split(/[\/ -]/).includes(wanted));
    return exact.length > 0 ? exact : all.filter(({ low }) => low.includes(wanted));
  };
  const button = (className, label, shown) => {
    const node = make("button", shown, className);
    node.type = "button";
    node.tabIndex = -1;
    node.setAttribute("aria-label", label);
    node.title = label;
    return node;
  };
  const choose = (node, act) => {
    node.addEventListener("click", () => {
      for (const other of table.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
      node.setAttribute("aria-current", "true");
      act();
    });
    return node;
  };
  const isEnd = (name) => name.includes("/") && !name.startsWith("outside");
  const single = (row, column) => {
    const cell = cells.get(row.index * data.columns.length + column.index);
    if (cell === undefined) return undefined;
    const [, , state, text, reason] = cell;
    const head = row.name + " → " + column.name;
    const words = data.texts[text] === "" ? "nothing" : data.texts[text];
    const command =
      state !== "opens" && state !== "closes" && state !== "both" && isEnd(row.name) && isEnd(column.name)
        ? "drawbridge policy explain -f … --from " + row.name + " --to " + column.name
        : "";
    return choose(button(state, head + ": " + words), () => say(head, words, data.texts[reason], command));
  };
  const HOT = ["both", "opens", "closes", "all", "part", "ports"];
  const together = (rows, columns) => {
    const counts = new Map();
    let all = 0;
    for (const row of rows) {
      for (const column of columns) {
        const cell = cells.get(row.index * data.columns.length + column.index);
        if (cell === undefined) continue;
        all += 1;
        counts.set(cell[2], (counts.get(cell[2]) ?? 0) + 1);
      }
    }
    const state = HOT.find((one) => counts.has(one)) ?? "none";
    return { state, all, open: all - (counts.get("none") ?? 0) };
  };
  const headCell = (scope, text, className) => {
    const node = make("th", text, className);
    node.scope = scope;
    return node;
  };
  const head = (columns) => {
    const line = make("tr");
    line.append(headCell("col", "from \\ to"));
    let before;
    for (const column of columns) {
      const cell = headCell("col", undefined, before !== undefined && boxOf(column.name) !== before ? "apart" : "");
      cell.append(make("span", column.name));
      cell.title = column.name;
      line.append(cell);
      before = boxOf(column.name);
    }
    const part = make("thead");
    part.append(line);
    return part;
  };
  const body = (rows, columns, cellFor) => {
    const part = make("tbody");
    let above;
    for (const row of rows) {
      const line = make("tr", undefined, above !== undefined && boxOf(row.name) !== above ? "apart" : "");
      const name = headCell("row", row.name);
      name.title = row.name;
      line.append(name);
      let before;
      for (const column of columns) {
        const cell = make("td", undefined, before !== undefined && boxOf(column.name) !== before ? "apart" : "");
        const node = cellFor(row, column);
        if (node !== undefined) cell.append(node);
        line.append(cell);
        before = boxOf(column.name);
      }
      part.append(line);
      above = boxOf(row.name);
    }
    return part;
  };
  const boxesOf = (names) => {
    const boxes = new Map();
    for (const one of names) boxes.set(boxOf(one.name), [...(boxes.get(boxOf(one.name)) ?? []), one]);
    return [...boxes].map(([name, members]) => ({ name, members }));
  };
  const wordFor = ({ name, members }) => (members[0].name.startsWith(name + "/") ? name + "/" : name);
  const ofBoxes = (row, column) => {
    const { state, all, open } = together(row.members, column.members);
    if (all === 0) return undefined;
    const label = row.name + " → " + column.name + ": " + open + " of " + all;
    return choose(button(state, label), () => {
      inputs.from.value = wordFor(row);
      inputs.to.value = wordFor(column);
      by.setAttribute("aria-pressed", "false");
      draw();
      say(row.name + " → " + column.name, open + " of " + all + " pairs: " + (data.isChange ? "something changes" : "something is allowed"));
    });
  };
  const draw = () => {
    const rows = numbered(data.rows, inputs.from.value);
    const columns = numbered(data.columns, inputs.to.value);
    const isByBox = by.getAttribute("aria-pressed") === "true";
    const [left, top] = isByBox ? [boxesOf(rows), boxesOf(columns)] : [rows, columns];
    table.replaceChildren(head(top), body(left, top, isByBox ? ofBoxes : single));
    const first = table.querySelector("td button");
    if (first !== null) first.tabIndex = 0;
    if (rows.length === 0 || columns.length === 0) say("No such name", "Nothing here has this name.");
    else why.replaceChildren(...hint);
  };
  // The table is one stop of Tab; arrow keys go to the next cell with a button.
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  table.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const from = event.target.closest("td");
    if (step === undefined || from === null) return;
    event.preventDefault();
    let [row, column] = [from.parentElement.rowIndex, from.cellIndex];
    let next;
    do {
      [row, column] = [row + step[0], column + step[1]];
      const cell = table.rows[row]?.cells[column];
      if (cell === undefined || cell.tagName === "TH") return;
      next = cell.querySelector("button");
    } while (next === null);
    for (const one of table.querySelectorAll("button[tabindex='0']")) one.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  for (const input of Object.values(inputs)) input.addEventListener("input", draw);
  by.addEventListener("click", () => {
    by.setAttribute("aria-pressed", String(by.getAttribute("aria-pressed") !== "true"));
    draw();
  });
  const MOST_SINGLE = 100;
  if (Math.max(data.rows.length, data.columns.length) > MOST_SINGLE) by.setAttribute("aria-pressed", "true");
  draw();
})();
`;
