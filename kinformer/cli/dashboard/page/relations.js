// The relations of an object, as links: owners, what it owns, its node, or the pods of a node.

import { element } from "./words.js";

export function relations(groups, store, href) {
  return element("div", { class: "relations" }, ...groups.map((group) => element("section", {},
    element("h3", {}, group.title),
    element("ul", { class: "lines" }, ...group.items.map((item) => reference(item, store, href))),
    group.more ? element("p", { class: "quiet" }, `and ${group.more} more`) : null)));
}

function reference(item, store, href) {
  const row = store.rows.get(item.resource)?.get(item.key);
  const cell = (name) => (row ? store.cell(item.resource, row, name) : ""), ready = cell("READY"), of = cell("DESIRED");
  const made = item.resource
    ? element("a", { href: href({ resource: item.resource, key: item.key }), "data-focus": `${item.resource} ${item.key}` }, item.name)
    : element("span", {}, item.name);
  return element("li", { class: `depth-${Math.min(item.depth, 3)}` }, element("span", { class: "quiet" }, item.kind), made,
    element("span", { class: `status ${row?.level ?? ""}`, title: row?.w ?? "" }, of && !ready.includes("/") ? `${ready}/${of}` : ready),
    element("span", { class: `status ${row?.level ?? ""}`, title: row?.w ?? "" }, cell("STATUS")));
}
