// A hold on the order of rows: while a pointer rests on them, each stays in its place; new ones come last.

export class Hold {
  constructor(body, changed) {
    this.list = null;  // the rows as they are held; null if they are not
    this.places = new Map();
    this.added = this.gone = 0;
    this.changed = changed;
    this.over = false;
    body.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") { this.over = true; this.changed(); } });
    body.addEventListener("pointerleave", () => { this.over = false; this.changed(); });
  }

  // Holds these rows from now on.
  take(list) {
    this.list = list.slice();
    this.places = new Map(list.map((row, place) => [row.k, place]));
    this.added = this.gone = 0;
  }

  release() {
    this.list = null;
    this.added = this.gone = 0;
  }

  // Changes are rows by key, null for one that is gone or is not to be shown any more.
  update(changes) {
    for (const [key, row] of changes) {
      const place = this.places.get(key);
      if (place !== undefined) {
        const old = this.list[place];
        if (row) {
          if (old.gone) this.gone -= 1;
          this.list[place] = row;
        } else if (!old.gone) {
          this.gone += 1;
          this.list[place] = { ...old, gone: true, at: 0 };
        }
      } else if (row) {
        this.places.set(key, this.list.push(row) - 1);
        this.added += 1;
      }
    }
  }
}
