// The derived collections of a service: a graph of what they read, and a card for each.

import { Cards, changesPerSecond, counted, tenths } from "./cards.js";
import { graphOf } from "./graph.js";
import { element } from "./words.js";

export class Derived {
  constructor(holder) {
    this.drawn = "";
    this.graph = element("div", { class: "graph" });
    this.figure = element("figure", { class: "card derived-graph", hidden: true }, element("h2", {}, "Derived collections"), this.graph);
    holder.append(this.figure);
    this.cards = new Cards(holder, "derived", {
      charts: [["events", "changes a second", changesPerSecond, tenths, 4], ["waiting", "waiting", (collection) => collection.waiting + collection.pending, tenths, 4]],
      facts: counted("values", "failures", "errors"),
      rest: counted("runs", "dependencies", "coalesced"),
      note: (collection) => (collection.reads.length ? `reads ${collection.reads.join(", ")}` : "reads nothing yet"),
    });
  }

  report(all, before, seconds) {
    this.cards.report(all, before, seconds);
  }

  draw(all) {
    this.figure.hidden = !all.length;
    const edges = all.map((collection) => [collection.name, collection.reads]), shape = JSON.stringify(edges);
    if (all.length && shape !== this.drawn) {
      this.drawn = shape;
      this.graph.replaceChildren(graphOf(edges));
    }
    this.cards.draw(all);
  }
}
