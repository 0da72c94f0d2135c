// Pods by node, a square each: what runs where, and what does not, at a glance.

import { element, meaning, number } from "./words.js";

const PODS = "v1/pods", NODES = "v1/nodes", NOWHERE = "";
const LEGEND = [["good", "running"], ["busy", "on its way"], ["bad", "failed"], ["over", "completed"]];

export class Nodes {
  constructor(store, filter, open) {
    Object.assign(this, { store, filter, open });
    this.grid = document.getElementById("grid");
    this.cards = new Map();
    this.squares = new Map();
    this.shown = false;
    this.totals = {};
    document.getElementById("legend").append(...LEGEND.map(([kind, word]) =>
      element("span", {}, element("i", { class: `pod ${kind}` }), this.totals[kind] = element("b", {}), word)));
    this.grid.addEventListener("click", (event) => {
      const square = event.target.closest(".pod");
      if (square) this.open(PODS, square.key);
      else if (event.target.closest(".node-name")?.known) this.open(NODES, event.target.closest(".node-name").known);
    });
  }

  show() {
    this.shown = true;
    this.rebuild();
  }

  hide() {
    this.shown = false;
  }

  rebuild() {
    if (!this.shown) return;
    this.cards.clear();
    this.squares.clear();
    for (const name of this.store.rows.get(NODES)?.keys() ?? []) this.card(name);
    const pods = [...this.store.rows.get(PODS)?.values() ?? []].sort((a, b) => (a.k < b.k ? -1 : 1));
    for (const row of pods) this.place(row);
    this.arrange();
  }

  update(changed) {
    if (!this.shown) return;
    if (changed.size > 2000) { this.rebuild(); return; }
    let moved = false;
    for (const [place, row] of changed) {
      if (place.startsWith(`${PODS} `)) {
        if (row) moved = this.place(row) || moved;
        else this.remove(place.slice(PODS.length + 1));
      } else if (place.startsWith(`${NODES} `)) {
        const name = place.slice(NODES.length + 1);
        if (row) moved = !this.cards.has(name) || moved;
        if (row) this.card(name);
        else if (this.cards.get(name)?.pods.size === 0) { this.cards.delete(name); moved = true; }
      }
    }
    if (moved) this.arrange();
    else this.count();
  }

  column(row, name) {
    const place = this.store.about(PODS)?.columns.indexOf(name) ?? -1;
    return place < 0 ? "" : row.c[place];
  }

  card(name) {
    let card = this.cards.get(name);
    if (!card) {
      card = { name, pods: new Set(), status: element("span", { class: "status" }), total: element("span", { class: "quiet" }) };
      card.title = element("button", { class: "node-name", type: "button" }, name || "not on a node");
      card.title.known = name;
      card.body = element("div", { class: "pods" });
      card.made = element("article", { class: "card node" }, element("header", {}, card.title, card.status, card.total), card.body);
      this.cards.set(name, card);
    }
    return card;
  }

  // Whether the order of the cards may have changed.
  place(row) {
    const named = this.column(row, "NODE"), node = named === "<none>" ? NOWHERE : named;
    let square = this.squares.get(row.k);
    const fresh = !this.cards.has(node);
    if (!square) {
      square = element("button", { class: "pod", type: "button", tabIndex: -1 });
      square.key = row.k;
      this.squares.set(row.k, square);
    }
    const card = this.card(node);
    if (square.card !== card) {
      if (square.card) this.leave(square);
      square.card = card;
      card.pods.add(row.k);
      card.body.append(square);
    }
    const status = this.column(row, "STATUS");
    square.kind = meaning(status);
    const kind = `pod ${square.kind}${this.filter.active && !this.filter.matches(row) ? " dim" : ""}`;
    if (square.className !== kind) square.className = kind;
    square.title = `${row.k}\n${status}`;
    return fresh;
  }

  remove(key) {
    const square = this.squares.get(key);
    if (!square) return;
    this.leave(square);
    square.remove();
    this.squares.delete(key);
  }

  // A card that stands for no node goes with its last pod.
  leave({ key, card }) {
    card.pods.delete(key);
    if (card.pods.size === 0 && !this.store.rows.get(NODES)?.has(card.name)) {
      this.cards.delete(card.name);
      card.made.remove();
    }
  }

  arrange() {
    // Pods without a node first: they are what somebody waits for.
    const order = [...this.cards.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    this.grid.replaceChildren(...order.map((card) => card.made));
    this.count();
  }

  count() {
    const totals = { good: 0, busy: 0, bad: 0, over: 0 };
    for (const square of this.squares.values()) totals[square.kind] = (totals[square.kind] ?? 0) + 1;
    for (const [kind, shown] of Object.entries(this.totals)) shown.textContent = number.format(totals[kind]);
    const size = this.squares.size < 400 ? 19 : this.squares.size < 1500 ? 14 : 11;
    this.grid.style.setProperty("--square", `${size}px`);
    const columns = this.store.about(NODES)?.columns ?? [];
    for (const card of this.cards.values()) {
      card.total.textContent = number.format(card.pods.size);
      const row = this.store.rows.get(NODES)?.get(card.name);
      const watched = this.store.about(NODES)?.synced;
      const status = row ? row.c[columns.indexOf("STATUS")] ?? "" : card.name && watched ? "gone" : "";
      card.status.textContent = status;
      card.status.className = `status ${meaning(status) || (status ? "bad" : "")}`;
      card.made.classList.toggle("ill", Boolean(status) && meaning(status) !== "good");
      card.made.classList.toggle("waiting", !card.name);
    }
  }
}
