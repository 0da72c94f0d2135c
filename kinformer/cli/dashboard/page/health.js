// The informers: a card for each, with state, objects, last event and errors, and folded its other figures.

import { Cards, changesPerSecond, counted, tenths } from "./cards.js";
import { Derived } from "./derived.js";
import { age, bytes, number } from "./words.js";

const ago = (seconds, never) => (seconds === null ? never : `${age(seconds)} ago`);
const relists = ({ relists: causes }) => Object.entries(causes).map(([cause, count]) => `${count} ${cause.replace("_", " ")}`).join(", ") || "none";

export class Health {
  constructor(store) {
    this.store = store;
    this.shown = false;
    this.process = document.getElementById("process");
    this.before = null;
    const holder = document.getElementById("cards");
    this.cards = new Cards(holder, "", {
      charts: [
        ["events", "changes a second", changesPerSecond, tenths, 4],
        ["age", "since the last event", (informer) => informer.event_age, age, 10],
        ["waiting", "waiting", (informer) => informer.queued + informer.pending, (value) => number.format(value), 4],
        ["memory", "memory", (informer) => informer.memory, bytes, 1],
      ],
      facts: [["objects", (informer) => (informer.synced ? number.format(informer.objects) : "–")], ["last event", (informer) => ago(informer.event_age, "–")], ...counted("errors")],
      rest: [["relists", relists], ...counted("watches", "failures", "coalesced"), ["received", (informer) => bytes(informer.received)],
        ["version", (informer) => informer.version || "–"], ["proved", (informer) => ago(informer.staleness, "never")],
        ["holder", (informer) => (informer.holder === null ? null : `process ${informer.holder}`)]],
    });
    this.derived = new Derived(holder);
  }

  show() {
    this.shown = true;
    this.draw();
  }

  hide() {
    this.shown = false;
  }

  report() {
    const { report } = this.store, { before } = this, seconds = before ? Math.max(0.1, report.now - before.now) : 1;
    this.cards.report(report.resources, before?.resources, seconds);
    this.derived.report(report.derived, before?.derived, seconds);
    this.before = report;
    if (this.shown && !document.hidden) this.draw();
  }

  draw() {
    const { report } = this.store;
    if (!report) return;
    this.process.textContent = `${bytes(report.memory)} in this process, up ${age(report.now - report.began)}`;
    this.cards.draw(report.resources);
    this.derived.draw(report.derived);
  }
}
