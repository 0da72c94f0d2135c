// The list of views: problems, changes, pods by node, the informers, and a table for each resource that is followed.

import { element, number, plural } from "./words.js";

export class Navigation {
  constructor(store, route, pick) {
    Object.assign(this, { store, route });
    this.nav = document.getElementById("views");
    this.more = document.getElementById("more");
    this.more.addEventListener("click", () => { this.unfold(false); pick(); });
    // On a narrow screen the list is folded, under the name of the view that is shown.
    this.menu = document.getElementById("menu");
    this.holder = this.menu.parentElement;
    this.menu.addEventListener("click", () => this.unfold(this.menu.getAttribute("aria-expanded") === "false"));
    this.holder.addEventListener("click", (event) => { if (event.target.closest("a")) this.unfold(false); });
    this.holder.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.holder.classList.contains("open")) return;
      this.unfold(false);
      this.menu.focus();
      event.stopPropagation();
    });
  }

  unfold(open) {
    this.holder.classList.toggle("open", open);
    this.menu.setAttribute("aria-expanded", String(open));
  }

  draw() {
    const { nav, store } = this, { view } = this.route.state, all = store.report?.resources ?? [];
    const overview = [...(store.report?.problems === null ? [] : [["problems", "Problems"]]), ["changes", "Changes"], ["nodes", "Pods by node"], ["health", "Informers"]];
    const entries = [...overview.map(([place, title]) => [place, title, null]), ...all.map((informer) => [`r/${informer.name}`, plural(informer), informer])];
    while (nav.children.length > entries.length) nav.lastChild.remove();
    while (nav.children.length < entries.length) {
      nav.append(element("li", {}, element("a", {}, element("i", { class: "dot" }), element("span", {}), element("b", {})), element("a", { class: "ill" })));
    }
    entries.forEach(([place, title, informer], number_) => {
      const item = nav.children[number_], [link, failing] = item.children, [dot, name, count] = link.children;
      item.classList.toggle("last", number_ === overview.length - 1);
      const href = this.route.href({ view: place, open: null, tab: "summary", level: "", kind: "", noise: false, ...(place === view ? {} : { sort: "" }) });
      if (link.getAttribute("href") !== href) link.setAttribute("href", href);
      if (name.textContent !== title) name.textContent = title;
      this.count(count, informer);
      const away = all.filter((other) => !other.live), ill = away.some((other) => !store.withheld(other.name));
      const kind = `dot ${place !== "health" || store.lost ? "" : ill ? "bad" : away.length ? "" : "good"}`;
      if (dot.className !== kind) dot.className = kind;
      this.fail(failing, place, title, informer);
      if (place === view) { link.setAttribute("aria-current", "page"); this.menu.textContent = title; } else link.removeAttribute("aria-current");
    });
    this.more.hidden = !store.report?.picks;
  }

  // The number of objects, if they are read.
  count(made, informer) {
    const locked = Boolean(informer && this.store.withheld(informer.name)), words = !informer || locked ? "" : informer.synced ? number.format(informer.objects) : "…";
    if (made.textContent !== words) made.textContent = words;
    if (made.classList.contains("lock") === locked) return;
    made.classList.toggle("lock", locked);
    for (const [name, value] of [["role", "img"], ["aria-label", "not yours to read"], ["title", "Not yours to read"]]) {
      if (locked) made.setAttribute(name, value); else made.removeAttribute(name);
    }
  }

  // The number of objects that fail, or of problems that are errors, which leads to them.
  fail(link, place, title, informer) {
    const counts = place === "problems" ? this.store.report?.problems?.counts ?? {} : {};
    const count = informer ? informer.levels.bad ?? 0 : (counts.critical ?? 0) + (counts.error ?? 0), words = count ? number.format(count) : "";
    link.hidden = !count;
    const href = this.route.href({ view: place, open: null, tab: "summary", sort: "", level: informer ? "bad" : "", kind: "", noise: false });
    if (link.getAttribute("href") !== href) link.setAttribute("href", href);
    if (link.textContent === words) return;
    link.textContent = words;
    link.title = `${words} failing`;
    link.setAttribute("aria-label", `${title}: ${words} failing`);
  }
}
