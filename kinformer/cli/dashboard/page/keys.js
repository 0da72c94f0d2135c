// The keys: each moves, opens or closes, and none takes the focus away from the place where it is.

import { switchTheme } from "./theme.js";

const at = (id) => document.getElementById(id);
const TABS = { s: "summary", c: "changes", e: "events", o: "logs", y: "yaml" };
const MOVES = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

export class Keys {
  constructor(page) {
    Object.assign(this, page);
    this.keys = {
      "/": () => at("text").focus(),
      l: () => at("selector").focus(),
      p: () => { if (this.store.report?.problems) this.route.go({ view: "problems" }); },
      d: () => this.route.go({ view: "changes" }),
      n: () => this.route.go({ view: "nodes" }),
      h: () => this.route.go({ view: "health" }),
      b: () => { if (!this.problems.shown && !this.timeline.shown) this.filter.toggle("bad"); },
      r: () => { if (this.store.report?.picks) this.picker.show(); },
      w: () => { if (this.detail.open) this.detail.widen(); },
      t: switchTheme,
      "?": () => at("keys").showModal(),
    };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (this.press(event)) event.preventDefault();
    });
  }

  // True if the key did something here, and the browser need not.
  press({ key, target }) {
    if (key === "Escape") return this.escape(target);
    if (target.matches("input, select, textarea")) return this.enter(key, target);
    if (target.matches("button, a, [role=tab]") && (key === "Enter" || key === " ")) return false;
    if (at("detail").contains(target) && (key === "ArrowDown" || key === "ArrowUp")) return false;  // they scroll it
    if (MOVES[key]) return this.move(MOVES[key]);
    if (key === "Enter") return this.openSelected(this.route.state.open ? this.route.state.tab : "summary");
    if (TABS[key]) return this.tab(TABS[key]);
    if (/^[1-9]$/.test(key)) {
      const informer = this.store.report?.resources[Number(key) - 1];
      if (informer) this.route.go({ view: `r/${informer.name}` });
      return Boolean(informer);
    }
    this.keys[key]?.();
    return Boolean(this.keys[key]);
  }

  escape(target) {
    if (target.matches("input")) {
      target.value = "";
      this.filter.read();
      target.blur();
    } else if (this.detail.open) this.close();
    else if (this.filter.active) this.filter.clear();
    return true;
  }

  // From the filter Enter and the arrow go on to the rows that it has left.
  enter(key, target) {
    if (!target.matches("input") || !(this.table.resource || this.problems.shown || this.timeline.shown) || (key !== "Enter" && key !== "ArrowDown")) return false;
    this.filter.read();
    this.table.selected = "";
    return this.move(1);
  }

  move(by) {
    const list = [this.problems, this.timeline].find((view) => view.shown);
    if (list) return list.move(by);
    if (!this.table.resource) return false;
    this.table.move(by);
    if (this.detail.open && this.table.selected) this.route.go({ open: { resource: this.table.resource, key: this.table.selected } }, { replace: true });
    return true;
  }

  openSelected(tab) {
    if (!this.table.resource) return false;
    if (this.table.then) {
      this.table.after = () => this.openSelected(tab);
      return true;
    }
    if (!this.table.selected) return false;
    this.open(this.table.resource, this.table.selected, tab);
    return true;
  }

  // Of the object that is open, or else of the row or square that is selected.
  tab(tab) {
    if (this.detail.open) this.route.go({ tab }, { replace: true });
    else if (document.activeElement?.key) this.open("v1/pods", document.activeElement.key, tab);
    else return this.openSelected(tab);
    return true;
  }
}
