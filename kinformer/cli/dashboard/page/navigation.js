// The list of views: pods by node, the informers, and a table for each resource that is followed.

import { element, number, plural } from "./words.js";

export class Navigation {
  constructor(store, route, pick) {
    Object.assign(this, { store, route });
    this.nav = document.getElementById("views");
    this.more = document.getElementById("more");
    this.more.addEventListener("click", pick);
  }

  draw() {
    const { nav, store } = this, { view } = this.route.state, all = store.report?.resources ?? [];
    const entries = [["nodes", "Pods by node", null], ["health", "Informers", null], ...all.map((one) => [`r/${one.name}`, plural(one), one])];
    while (nav.children.length > entries.length) nav.lastChild.remove();
    while (nav.children.length < entries.length) {
      nav.append(element("li", {}, element("a", {}, element("i", { class: "dot" }), element("span", {}), element("b", {}))));
    }
    entries.forEach(([place, title, one], number_) => {
      const link = nav.children[number_].firstChild, [dot, name, count] = link.children;
      const href = this.route.href({ view: place, open: null, tab: "summary", ...(place === view ? {} : { sort: "" }) });
      if (link.getAttribute("href") !== href) link.setAttribute("href", href);
      if (name.textContent !== title) name.textContent = title;
      const total = one ? number.format(store.count(one.name)) : "";
      if (count.textContent !== total) count.textContent = total;
      const ill = one ? !one.live : place === "health" && all.some((other) => !other.live);
      const kind = `dot ${store.lost ? "" : ill ? "bad" : one || place === "health" ? "good" : ""}`;
      if (dot.className !== kind) dot.className = kind;
      const words = one ? (one.live ? "" : `not live${one.error ? `: ${one.error}` : ""}`) : "";
      if (link.title !== words) link.title = words;
      if (place === view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    });
    this.more.hidden = !store.report?.picks;
  }
}
