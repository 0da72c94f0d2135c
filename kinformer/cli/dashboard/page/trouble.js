// The banner: one for each cause that keeps the page from showing the present, with the reason and since when.

import { since } from "./clock.js";
import { element } from "./words.js";

export class Trouble {
  constructor(store) {
    this.store = store;
    this.pill = document.getElementById("link");
    this.banner = document.getElementById("trouble");
    this.shown = "";
    setInterval(() => { if (!document.hidden && store.lost) this.draw(); }, 500);
  }

  draw() {
    const { store } = this, troubles = store.lost ? [] : store.report?.troubles ?? [];
    this.say();
    document.body.classList.toggle("lost", Boolean(store.lost && store.report));
    const wait = store.lost ? Math.max(0, Math.ceil(store.lost.next - Date.now() / 1000)) : 0;
    const signature = JSON.stringify([store.lost && [store.lost.since, store.lost.tries, wait],
      troubles.map(({ cause, reason, resources, rights, since: at }) => [cause, reason, resources, rights, at])]);
    if (signature !== this.shown) {
      this.shown = signature;
      this.banner.replaceChildren(...(store.lost && store.report ? [lost(store.lost, wait)] : troubles.map(line)));
      this.banner.hidden = !this.banner.children.length;
    }
  }

  say() {
    const { store } = this, all = store.report?.resources ?? [], live = all.filter((informer) => informer.live).length;
    const ill = all.some((informer) => !informer.live && informer.error && !store.withheld(informer.name));
    const rest = all.every((informer) => informer.live || store.withheld(informer.name));
    const [word, kind] = store.lost && store.report ? ["not connected", "bad"] : !store.linked || !store.report ? ["connecting", "busy"]
      : live === all.length ? ["live", "good"] : ill || rest ? [`${live} of ${all.length} live`, ill ? "bad" : ""] : ["loading", "busy"];
    if (this.pill.textContent !== word) this.pill.textContent = word;
    this.pill.className = `pill ${kind}`;
  }
}

function lost({ since: at, tries }, wait) {
  return element("p", {}, "The server of this page has not answered for ", since(at), ". You see what it sent last. ",
    element("span", { class: "aside" }, wait ? `Next try in ${wait} s.` : `Trying again, for the ${nth(tries)} time.`));
}

function nth(count) {
  const ending = count % 100 > 10 && count % 100 < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[count % 10] ?? "th";
  return `${count}${ending}`;
}

function line({ cause, reason, resources, rights, since: at, synced }) {
  const last = synced ? " Showing the last known state." : "", them = resources.join(", ");
  if (cause === "unreachable") return element("p", {}, "The API server has not been reachable for ", since(at), `: ${reason}.${last}`);
  if (cause === "unauthorized") {
    return element("p", {}, "The API server has not accepted the credentials for ", since(at), `: ${reason}.${last}`);
  }
  if (cause === "forbidden") {
    return element("p", {}, element("b", {}, them), `: ${rights}, for `, since(at), `. ${reason}.${last}`);
  }
  if (cause === "absent") return element("p", {}, element("b", {}, them), ": the server has not had this resource for ", since(at), `: ${reason}.${last}`);
  return element("p", {}, resources.length > 3 ? `${resources.length} resources have` : `${them} ${resources.length > 1 ? "have" : "has"}`,
    " not been followed for ", since(at), `: ${reason}.${last}`);
}
