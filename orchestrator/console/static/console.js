"use strict";
// Live: whenever the run moves, the server renders its part of the page anew, and the blocks that changed take the place of the
// old ones. No text of a trace is ever put together here.
const parsed = async (url) => {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) throw new Error(`${url}: ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html").body;
};
const fields = (block) => [...block.querySelectorAll("input:not([type=hidden]), textarea")];
const busy = (block) => fields(block).some((each) => each === document.activeElement || each.value !== each.defaultValue);

// What somebody opened or loaded stays so.
const keep = (old, fresh) => {
  for (const each of old.querySelectorAll("details[id]")) {
    const same = fresh.querySelector(`details[id="${CSS.escape(each.id)}"]`);
    if (!same) continue;
    same.open = each.open;
    if (each.dataset.loaded) { same.dataset.loaded = "1"; same.lastElementChild.replaceWith(each.lastElementChild.cloneNode(true)); }
  }
};
const focused = (old) => {
  const one = document.activeElement;
  if (!old.contains(one)) return "";
  if (one === old) return "";
  for (const name of ["href", "value", "id"]) {
    const value = one.getAttribute(name);
    if (value) return `${one.localName}[${name}="${CSS.escape(value)}"]`;
  }
  return one.localName;
};
const swap = (old, fresh) => {
  keep(old, fresh);
  if (old.isEqualNode(fresh) || (busy(old) && fresh.querySelector("form"))) return;
  const self = old === document.activeElement, selector = focused(old);
  old.replaceWith(fresh);
  const again = self ? fresh : selector && fresh.querySelector(selector);
  if (again) again.focus({ preventScroll: true });
};
const merge = (old, fresh) => {
  const wanted = [...fresh.children];
  for (const each of [...old.children]) if (!wanted.some((one) => one.id === each.id)) each.remove();
  wanted.forEach((each, at) => {
    const same = [...old.children].find((one) => one.id === each.id);
    if (!same) old.insertBefore(each, old.children[at] || null);
    else if (each.hasAttribute("data-merge")) merge(same, each);
    else swap(same, each);
  });
};

const live = document.querySelector("[data-follow]");
if (live) {
  const kinds = ["run_started", "model_turn", "action_started", "observation", "waiting", "decision", "run_ended"];
  const source = new EventSource(live.dataset.follow);
  let due = 0, ended = false, pause = 100, failures = 0;
  const refresh = async () => {
    const began = performance.now();
    due = 1;
    try {
      merge(live, await parsed(live.dataset.part));
      pause = Math.max(100, 3 * (performance.now() - began));  // a long run is asked for less often
      failures = 0;
      if (ended) document.getElementById("cancel")?.remove();
    } catch {
      pause = 2000;
      failures += 1;
      due += failures < 30;
    }
    const more = due > 1;
    due = 0;
    if (more) later();
  };
  const later = () => { due += 1; if (due === 1) setTimeout(refresh, pause); };
  for (const kind of kinds) source.addEventListener(kind, later);
  source.addEventListener("run_ended", () => { ended = true; source.close(); });
  source.addEventListener("problem", () => source.close());
  setInterval(() => { if (!ended && !due && !document.hidden && source.readyState < 2) later(); }, 5000);
}

// Requests and replies are loaded when somebody unfolds them.
document.addEventListener("toggle", async (event) => {
  const each = event.target;
  if (!(each instanceof HTMLDetailsElement) || !each.open || !each.dataset.load || each.dataset.loaded) return;
  each.dataset.loaded = "1";
  try { each.lastElementChild.replaceChildren(...(await parsed(each.dataset.load)).children); } catch { delete each.dataset.loaded; }
}, true);

// Keyboard: j and k move, Enter opens, / goes to the filter, a to the approval, u up.
const go = (where) => { if (where) { where.focus({ preventScroll: true }); where.scrollIntoView({ block: "nearest" }); } };
const keys = {
  j: () => step(1),
  k: () => step(-1),
  a: () => go(document.querySelector("[data-first]")),
  "/": () => go(document.querySelector("[data-filter]")),
  u: () => [...document.querySelectorAll("[data-up]")].pop()?.click(),
};
const step = (by) => {
  const all = [...document.querySelectorAll("[data-item]")];
  const at = all.findIndex((each) => each.contains(document.activeElement));
  go(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))]);
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
  event.preventDefault();
  keys[event.key]();
});
