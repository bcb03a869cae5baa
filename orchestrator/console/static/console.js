"use strict";
// Live: whenever the run moves, the server renders its part of the page anew. No trace text is ever put together here.
const live = document.querySelector("[data-follow]");
if (live) {
  const kinds = ["run_started", "model_turn", "action_started", "observation", "waiting", "decision", "run_ended"];
  const source = new EventSource(live.dataset.follow);
  let due = 0;
  const busy = () => live.contains(document.activeElement) && document.activeElement.matches("input, textarea");
  const refresh = async () => {
    due = 0;
    if (busy()) { later(1000); return; }
    const answer = await fetch(location.pathname + "?part=1", { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const open = [...live.querySelectorAll("details[open]")].map((each) => each.id);
    live.innerHTML = await answer.text();
    for (const id of open) { const each = document.getElementById(id); if (each) each.open = true; }
  };
  const later = (wait) => { if (!due) due = setTimeout(refresh, wait); };
  for (const kind of kinds) source.addEventListener(kind, () => later(150));
  source.addEventListener("run_ended", () => source.close());
  source.addEventListener("problem", () => source.close());
}
// Keyboard: j and k move, Enter opens, / goes to the filter, u goes up.
const items = () => [...document.querySelectorAll("[data-item]")];
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
  if (event.key === "j" || event.key === "k") {
    const all = items();
    const at = all.indexOf(document.activeElement);
    const next = all[Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); event.preventDefault(); }
  } else if (event.key === "/") {
    const filter = document.querySelector("[data-filter]");
    if (filter) { filter.focus(); event.preventDefault(); }
  } else if (event.key === "u") {
    const up = [...document.querySelectorAll("[data-up]")].pop();
    if (up) up.click();
  }
});
