// A hold on the order of rows: while a pointer rests on them, each stays in its place, and new ones come last.

export class Hold {
  constructor(body, changed) {
    this.keys = null;       // the keys as they are held; null if they are not
    this.gone = new Set();  // those of them that are gone
    this.changed = changed;
    this.over = false;
    body.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") { this.over = true; this.changed(); } });
    body.addEventListener("pointerleave", () => { this.over = false; this.changed(); });
  }

  // Holds these keys from now on; `shown` is the number of all rows.
  take(keys, shown) {
    this.keys = keys.slice();
    this.held = new Set(keys);
    this.shown = shown;
    this.gone.clear();
  }

  release() {
    this.keys = null;
    this.gone.clear();
  }

  has(key) {
    return this.keys !== null && this.held.has(key);
  }

  // Takes up keys that are new, after the others.
  add(keys) {
    for (const key of keys) if (!this.held.has(key)) { this.held.add(key); this.keys.push(key); }
  }

  // The number of rows that have come, if there are `shown` now.
  added(shown) {
    return this.keys ? Math.max(0, shown - this.shown + this.gone.size) : 0;
  }
}
