// A small graph: boxes in columns, from what is read on the left to what is made of it on the right.

const WIDE = 190, HIGH = 30, GAP = 70, BETWEEN = 12, LETTERS = 24;

function svg(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// `edges`: pairs of a name and the names that it reads.
export function graphOf(edges) {
  const reads = new Map(edges), columns = new Map();
  const column = (name, above = []) => {
    if (above.includes(name)) return 0;
    if (!columns.has(name)) columns.set(name, Math.max(-1, ...(reads.get(name) ?? []).map((source) => column(source, [...above, name]))) + 1);
    return columns.get(name);
  };
  for (const [name] of edges) column(name);
  const places = new Map(), heights = [];
  for (const [name, at] of columns) {
    const row = heights[at] ?? 0;
    places.set(name, { x: at * (WIDE + GAP), y: row * (HIGH + BETWEEN) });
    heights[at] = row + 1;
  }
  const width = heights.length * (WIDE + GAP) - GAP + 2, height = Math.max(1, ...heights.map((rows) => rows ?? 0)) * (HIGH + BETWEEN) - BETWEEN + 2;
  const lines = edges.flatMap(([name, of]) => of.map((source) => {
    const from = places.get(source), to = places.get(name), left = from.x + WIDE, middle = HIGH / 2;
    return svg("path", { d: `M${left} ${from.y + middle}C${left + GAP / 2} ${from.y + middle} ${to.x - GAP / 2} ${to.y + middle} ${to.x} ${to.y + middle}` });
  }));
  const boxes = [...places].map(([name, { x, y }]) => {
    const shown = name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name;
    const text = svg("text", { x: x + WIDE / 2, y: y + HIGH / 2 }), title = svg("title", {});
    text.textContent = shown;
    title.textContent = name;
    const box = svg("rect", { x, y, width: WIDE, height: HIGH, rx: 8, class: reads.has(name) ? "made" : "read" });
    return svg("g", {}, title, box, text);
  });
  const told = edges.map(([name, of]) => `${name} reads ${of.join(", ") || "nothing"}`).join("; ");
  return svg("svg", { viewBox: `-1 -1 ${width} ${height}`, width, height, role: "img", "aria-label": told }, ...lines, ...boxes);
}
