// Small helpers: elements without markup, ages, sizes, and what a status word means.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const UNITS = [["y", 31536000], ["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// As kubectl writes them: two units if the first is small.
export function age(seconds) {
  if (!(seconds >= 0)) return seconds > -2 ? "0s" : "";
  const whole = Math.floor(seconds);
  if (whole < 120) return `${whole}s`;
  for (let place = 0; place < UNITS.length - 1; place += 1) {
    const [unit, size] = UNITS[place], [smaller, small] = UNITS[place + 1];
    const count = Math.floor(whole / size);
    if (count >= 2 || (count === 1 && unit !== "m" && unit !== "h")) {
      const rest = Math.floor((whole % size) / small);
      return count < 10 && rest ? `${count}${unit}${rest}${smaller}` : `${count}${unit}`;
    }
  }
  return `${whole}s`;
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let place = 0;
  while (count >= 1000 && place < units.length - 1) { count /= 1000; place += 1; }
  return `${count >= 100 || place === 0 ? Math.round(count) : count.toFixed(1)} ${units[place]}`;
}

export const number = new Intl.NumberFormat("en");

const MEANINGS = {
  good: "Running Ready Active Bound Available True Healthy Complete watching polling",
  busy: "Pending ContainerCreating PodInitializing Creating Terminating Suspended Released Unknown listing starting backing_off",
  bad: "Failed Error CrashLoopBackOff ImagePullBackOff ErrImagePull NotReady OOMKilled Evicted Lost False "
    + "CreateContainerConfigError InvalidImageName RunContainerError StartError forbidden unauthorized absent stopped",
  over: "Completed Succeeded",
};
const MEANING = new Map(Object.entries(MEANINGS).flatMap(([kind, words]) => words.split(" ").map((word) => [word, kind])));

// good, busy, bad, over, or "" if a word says nothing of the kind.
export function meaning(word) {
  const first = String(word).split(",")[0];
  if (first.startsWith("Init:")) return /^\d/.test(first.slice(5)) ? "busy" : "bad";
  return MEANING.get(first) ?? "";
}

export function plural(about) {
  const kind = about.kind;
  if (/(s|x|ch)$/.test(kind)) return `${kind}es`;
  return /[^aeiou]y$/.test(kind) ? `${kind.slice(0, -1)}ies` : `${kind}s`;
}
