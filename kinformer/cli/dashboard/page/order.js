// The rows of a table in their order. It is kept: a change costs two searches, not another sort of ten thousand rows.

const MOST = 400;  // changes at once, above which sorting anew is faster

export class Order {
  constructor() {
    this.list = [];
    this.held = new Map();  // key -> the row that is in the list
    this.compare = () => 0;
    this.shows = () => true;
  }

  // `compare` must tell any two rows apart, so that a row is found again.
  reset(rows, compare, shows) {
    Object.assign(this, { compare, shows });
    this.list = [];
    this.held = new Map();
    for (const row of rows) if (shows(row)) { this.list.push(row); this.held.set(row.k, row); }
    this.list.sort(compare);
  }

  // Changes are rows by key, null for one that is gone.
  update(changes) {
    if (changes.size > MOST) {
      for (const [key, row] of changes) {
        if (row && this.shows(row)) this.held.set(key, row);
        else this.held.delete(key);
      }
      this.list = [...this.held.values()].sort(this.compare);
      return;
    }
    for (const [key, row] of changes) {
      const old = this.held.get(key), shown = row !== null && this.shows(row);
      if (old && shown && this.compare(old, row) === 0) this.list[this.place(old)] = row;
      else {
        if (old) this.list.splice(this.place(old), 1);
        if (shown) this.list.splice(this.place(row), 0, row);
      }
      if (shown) this.held.set(key, row);
      else this.held.delete(key);
    }
  }

  // The place of a row, or the one that it would have.
  place(row) {
    let low = 0, high = this.list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(this.list[middle], row) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
