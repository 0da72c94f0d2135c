// Pods by node, a square for each: all that runs, and all that does not, at a glance.

import { Counters } from "./levels.js";
import { element, number } from "./words.js";

const PODS = "v1/pods", NODES = "v1/nodes", NOWHERE = "";

export class Nodes {
  constructor(store, filter, open) {
    Object.assign(this, { store, filter, open });
    this.grid = document.getElementById("grid");
    this.cards = new Map();
    this.squares = new Map();
    this.shown = false;
    this.tally = { good: 0, busy: 0, bad: 0, over: 0 };
    this.current = null;  // the square that the Tab key reaches: the first, until another one was chosen
    this.chosen = false;
    this.counters = new Counters(document.getElementById("legend"), filter);
    this.grid.addEventListener("click", (event) => {
      const square = event.target.closest(".pod"), name = event.target.closest(".node-name")?.known;
      if (square) { this.reach(square); this.chosen = true; this.open(PODS, square.key); }
      else if (name) this.open(NODES, name);
    });
    this.grid.addEventListener("focusin", (event) => { if (event.target.matches(".pod")) { this.reach(event.target); this.chosen = true; } });
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  show() {
    this.shown = true;
    this.rebuild();
  }

  hide() {
    this.shown = false;
  }

  // All squares, in the order of their names; those that are there already keep their elements, and the focus.
  rebuild() {
    if (!this.shown) return;
    const nodes = this.store.rows.get(NODES) ?? new Map(), rows = this.store.rows.get(PODS) ?? new Map();
    for (const name of nodes.keys()) this.card(name);
    for (const key of [...this.squares.keys()]) if (!rows.has(key)) this.remove(key);
    for (const row of rows.values()) this.place(row);
    for (const [name, card] of this.cards) if (!nodes.has(name) && card.pods.size === 0) this.drop(card);
    for (const card of this.cards.values()) this.describe(card);
    this.arrange();
    this.count();
  }

  update(changed) {
    if (!this.shown) return;
    if (changed.size > 2000) { this.rebuild(); return; }
    const touched = new Set();
    let moved = false;
    for (const [place, row] of changed) {
      if (place.startsWith(`${PODS} `)) {
        const square = this.squares.get(place.slice(PODS.length + 1));
        if (square) touched.add(square.card);
        if (row) {
          moved = this.place(row) || moved;
          touched.add(this.squares.get(row.k).card);
        } else this.remove(place.slice(PODS.length + 1));
      } else if (place.startsWith(`${NODES} `)) {
        const name = place.slice(NODES.length + 1);
        if (row) moved = !this.cards.has(name) || moved;
        if (row) touched.add(this.card(name));
        else if (this.cards.get(name)?.pods.size === 0) this.drop(this.cards.get(name));
        else if (this.cards.has(name)) touched.add(this.cards.get(name));
      }
    }
    for (const card of touched) if (this.cards.get(card.name) === card) moved = this.describe(card) || moved;
    if (moved) this.arrange();
    if (touched.size) this.count();
  }

  card(name) {
    let card = this.cards.get(name);
    if (!card) {
      card = { name, pods: new Set(), status: element("span", { class: "status" }), total: element("span", { class: "quiet" }) };
      card.title = element(name ? "button" : "span", { class: "node-name", ...(name ? { type: "button" } : {}) }, name || "not on a node");
      card.title.known = name;
      card.body = element("div", { class: "pods", role: "group", "aria-label": name ? `pods on ${name}` : "pods that are not on a node" });
      card.made = element("article", { class: "card node" }, element("header", {}, card.title, card.status, card.total), card.body);
      this.cards.set(name, card);
    }
    return card;
  }

  drop(card) {
    this.cards.delete(card.name);
    card.made.remove();
  }

  // True if the order of the cards may have changed.
  place(row) {
    const named = this.store.cell(PODS, row, "NODE"), node = named === "<none>" ? NOWHERE : named;
    let square = this.squares.get(row.k);
    const fresh = !this.cards.has(node);
    if (!square) {
      square = element("button", { class: "pod", type: "button", tabIndex: -1 });
      square.key = row.k;
      this.squares.set(row.k, square);
    }
    const card = this.card(node);
    if (square.card !== card) {
      const focused = document.activeElement === square;
      if (square.card) this.leave(square);
      square.card = card;
      card.pods.add(row.k);
      card.body.insertBefore(square, following(card.body.children, row.k));
      if (focused) square.focus();
    }
    const status = this.store.cell(PODS, row, "STATUS"), now = row.level;
    if (square.kind !== now) {
      if (square.kind !== undefined) this.tally[square.kind] -= 1;
      this.tally[now] = (this.tally[now] ?? 0) + 1;
      square.kind = now;
    }
    const kind = `pod ${now}${this.filter.active && !this.filter.matches(row) ? " dim" : ""}`;
    if (square.className !== kind) square.className = kind;
    const words = [row.k, status, row.w ?? ""].filter(Boolean).join("\n");
    if (square.title !== words) square.title = words;
    return fresh;
  }

  remove(key) {
    const square = this.squares.get(key);
    if (!square) return;
    const focused = document.activeElement === square, near = square.nextElementSibling ?? square.previousElementSibling;
    this.leave(square);
    square.remove();
    this.squares.delete(key);
    if (square.kind !== undefined) this.tally[square.kind] -= 1;
    if (this.current === square) {
      this.current = null;
      this.reach(near ?? this.grid.querySelector(".pod"));
      if (focused) (this.current ?? document.getElementById("main")).focus();
    }
  }

  // A card that belongs to no node goes with its last pod.
  leave({ key, card }) {
    card.pods.delete(key);
    if (card.pods.size === 0 && !this.store.rows.get(NODES)?.has(card.name)) this.drop(card);
  }

  // Pods without a node come first: they are waiting. Then come nodes that are broken. Cards that are in their place are
  // not touched, and keep the focus.
  arrange() {
    const place = (card) => (!card.name ? 0 : card.ill ? 1 : 2);
    const order = [...this.cards.values()].sort((a, b) => place(a) - place(b) || a.name.localeCompare(b.name, "en", { numeric: true }));
    order.forEach((card, place) => {
      if (this.grid.children[place] !== card.made) this.grid.insertBefore(card.made, this.grid.children[place] ?? null);
    });
  }

  // --- with the keyboard: Tab reaches one square, the arrows the others ----------------------------------------------

  reach(square) {
    if (!square || this.current === square) return;
    if (this.current) this.current.tabIndex = -1;
    this.current = square;
    square.tabIndex = 0;
  }

  key(event) {
    const square = event.target;
    if (!square.matches?.(".pod") || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = this.grid.getElementsByClassName("pod");
    let next = null;
    if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const list = [...all], at = list.indexOf(square) + (event.key === "ArrowRight" ? 1 : -1);
      next = list[Math.min(list.length - 1, Math.max(0, at))];
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") next = this.beyond(square, event.key === "ArrowDown" ? 1 : -1);
    else return;
    next?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  // The nearest square below or above, in this card or the next.
  beyond(square, way) {
    const from = square.getBoundingClientRect(), x = from.left + from.width / 2;
    let cards = [square.card.made];
    const children = [...this.grid.children], at = children.indexOf(square.card.made);
    cards = cards.concat(way > 0 ? children.slice(at + 1) : children.slice(0, at).reverse());
    for (const card of cards) {
      let best = null, least = Infinity;
      for (const one of card.getElementsByClassName("pod")) {
        const box = one.getBoundingClientRect(), down = way * (box.top - from.top);
        if (down < from.height / 2) continue;
        const far = down * 8 + Math.abs(box.left + box.width / 2 - x);
        if (far < least) { least = far; best = one; }
      }
      if (best) return best;
    }
    return null;
  }

  // --- words and numbers ----------------------------------------------------------------------------------------------

  // True if the place of the card may have changed.
  describe(card) {
    card.total.textContent = number.format(card.pods.size);
    const row = this.store.rows.get(NODES)?.get(card.name);
    const gone = !row && Boolean(card.name) && Boolean(this.store.about(NODES)?.synced), was = card.ill;
    card.status.textContent = row ? this.store.cell(NODES, row, "STATUS") : gone ? "gone" : "";
    card.status.title = row?.w ?? "";
    card.status.className = `status ${row ? row.level : "bad"}`;
    card.ill = gone || row?.level === "bad";
    card.made.classList.toggle("ill", card.ill);
    card.made.classList.toggle("waiting", !card.name);
    return was !== card.ill;
  }

  count() {
    if (!this.chosen) this.reach(this.grid.querySelector(".pod"));
    this.counters.draw((level) => this.tally[level]);
    const size = this.squares.size < 400 ? "19px" : this.squares.size < 1500 ? "14px" : "11px";
    if (this.grid.style.getPropertyValue("--square") !== size) this.grid.style.setProperty("--square", size);
  }
}

// The first of some squares, which are in the order of their names, that comes after a name; null if none does.
function following(squares, key) {
  let low = 0, high = squares.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (squares[middle].key < key) low = middle + 1;
    else high = middle;
  }
  return squares[low] ?? null;
}
