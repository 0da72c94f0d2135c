// What the page knows: rows by resource, kept equal to the server's caches by one event stream.

export class Store extends EventTarget {
  constructor(url) {
    super();
    this.url = url;
    this.rows = new Map();      // resource -> Map(key -> row)
    this.report = null;         // how the informers do
    this.linked = false;
    this.received = 0;          // events, since the page was opened
    this.dirty = new Set();     // resources that changed since the last frame
    this.changed = new Map();   // "resource key" -> row, or null where it is gone, since the last frame
    this.lastId = "";
    this.frame = 0;
    this.hiddenSince = 0;
    this.open();
    // A browser has six connections to a server, over all of its tabs: one that nobody looks at gives its own back.
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.parking);
      if (document.hidden) this.parking = setTimeout(() => this.close(), 30_000);
      else if (!this.source) this.open();
    });
  }

  open() {
    const resume = this.lastId ? `?last-event-id=${encodeURIComponent(this.lastId)}` : "";
    const source = this.source = new EventSource(this.url + resume);
    source.onopen = () => {
      // Without an id the server begins anew, and a snapshot that was cut in the middle is void.
      if (!this.lastId) this.clear();
      this.link(true);
    };
    source.onerror = () => {
      this.link(false);
      if (source.readyState === EventSource.CLOSED && this.source === source) {
        this.source = null;
        setTimeout(() => { if (!this.source && !document.hidden) this.open(); }, 2000);
      }
    };
    for (const type of ["ADDED", "UPDATED", "DELETED"]) {
      source.addEventListener(type, (event) => this.apply(type, event));
    }
    source.addEventListener("RESET", () => this.clear());
    source.addEventListener("HEALTH", (event) => {
      this.report = JSON.parse(event.data);
      this.link(true);
      this.dispatchEvent(new Event("report"));
    });
  }

  close() {
    this.source?.close();
    this.source = null;
    this.link(false);
  }

  link(up) {
    if (this.linked === up) return;
    this.linked = up;
    this.dispatchEvent(new Event("link"));
  }

  clear() {
    for (const resource of this.rows.keys()) this.dirty.add(resource);
    for (const [resource, rows] of this.rows) for (const key of rows.keys()) this.changed.set(`${resource} ${key}`, null);
    this.rows.clear();
    this.lastId = "";
    this.schedule();
  }

  apply(type, event) {
    const row = JSON.parse(event.data);
    if (event.lastEventId) this.lastId = event.lastEventId;
    this.received += 1;
    let rows = this.rows.get(row.s);
    if (!rows) this.rows.set(row.s, rows = new Map());
    if (type === "DELETED") {
      rows.delete(row.k);
      this.changed.set(`${row.s} ${row.k}`, null);
    } else {
      const slash = row.k.indexOf("/");
      row.ns = slash < 0 ? "" : row.k.slice(0, slash);
      row.name = row.k.slice(slash + 1);
      row.at = type === "UPDATED" ? performance.now() : 0;
      rows.set(row.k, row);
      this.changed.set(`${row.s} ${row.k}`, row);
    }
    this.dirty.add(row.s);
    this.schedule();
  }

  // However many events come in, the page is drawn once a frame at the most.
  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const dirty = this.dirty, changed = this.changed;
      this.dirty = new Set();
      this.changed = new Map();
      this.dispatchEvent(new CustomEvent("rows", { detail: { dirty, changed } }));
    });
  }

  count(resource) {
    return this.rows.get(resource)?.size ?? 0;
  }

  about(resource) {
    return this.report?.resources.find((one) => one.name === resource);
  }
}
