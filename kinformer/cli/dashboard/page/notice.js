// The notice: the resources that the user has no right to read, as one line. Dismissed, it comes back if they change.

import { element } from "./words.js";

const PLACE = "kinformer: dismissed";

export class Notice {
  constructor(store) {
    this.store = store;
    this.holder = document.getElementById("withheld");
    this.list = this.holder.querySelector("ul");
    this.summary = this.holder.querySelector("summary");
    this.shown = this.dismissed = "";
    try { this.dismissed = sessionStorage.getItem(PLACE) ?? ""; } catch { /* a private window keeps nothing */ }
    document.getElementById("dismiss").addEventListener("click", () => {
      this.dismissed = this.set;
      try { sessionStorage.setItem(PLACE, this.set); } catch { /* likewise */ }
      this.draw();
      document.getElementById("main").focus({ preventScroll: true });
    });
  }

  get items() {
    return this.store.report?.withheld.items ?? [];
  }

  get set() {
    return this.items.map((item) => item.resource).join();
  }

  draw() {
    this.holder.hidden = !this.items.length || this.dismissed === this.set;
    const state = JSON.stringify(this.store.report?.withheld);
    if (this.holder.hidden || this.shown === state) return;
    this.shown = state;
    this.summary.textContent = this.store.report.withheld.words;
    this.list.replaceChildren(...this.items.map((item) => element("li", { title: item.reason }, element("b", {}, item.resource), item.rights)));
  }
}
