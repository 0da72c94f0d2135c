// The relations of an object, as links: owners, what it owns, its node, or the pods of a node.

import { element } from "./words.js";

export function relations(groups, href) {
  return element("div", { class: "relations" }, ...groups.map((group) => element("section", {},
    element("h3", {}, group.title),
    element("ul", { class: "lines" }, ...group.items.map((item) => reference(item, href))),
    group.more ? element("p", { class: "quiet" }, `and ${group.more} more`) : null)));
}

function reference(item, href) {
  const made = item.resource
    ? element("a", { href: href({ resource: item.resource, key: item.key }), "data-focus": `${item.resource} ${item.key}` }, item.name)
    : element("span", {}, item.name);
  const status = (words) => element("span", { class: `status ${item.level ?? ""}`, title: item.reason ?? "" }, words ?? "");
  return element("li", { class: `depth-${Math.min(item.depth, 3)}` }, element("span", { class: "quiet" }, item.kind), made,
    status(item.ready), status(item.status));
}
