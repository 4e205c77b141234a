// Refreshes the parts of a page marked data-live, in place; the page works the same without this.
// What cannot be refreshed is said loudly: an old page must not pass for good news.
const EVERY = 10_000;
const GIVE_UP_AFTER = 8_000;
const status = document.getElementById("live");
const asOf = status?.querySelector("time")?.textContent ?? "";
let shown = asOf;
let timer = 0;
let busy = false;

function say(text, lost) {
  document.documentElement.classList.toggle("lost", lost);
  status.querySelector(".said").textContent = text;
}

function opened(root) {
  return [...root.querySelectorAll("details[id][open]")].map((one) => one.id);
}

function isHeld(part) {
  const active = document.activeElement;
  if (active && part.contains(active) && active.matches("input, select, textarea")) return true;
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function swap(part, fresh) {
  if (part.innerHTML === fresh.innerHTML && part.className === fresh.className) return;
  const active = part.contains(document.activeElement) ? document.activeElement : null;
  const address = active?.getAttribute("href");
  const label = active?.getAttribute("aria-label");
  const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  const open = opened(part);
  const taken = document.importNode(fresh, true);
  part.replaceWith(taken);
  for (const id of open) taken.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  taken.querySelectorAll(".scroll").forEach((one, index) => (one.scrollLeft = scrolled[index] ?? 0));
  if (address) taken.querySelector(`[href="${CSS.escape(address)}"]`)?.focus({ preventScroll: true });
  else if (label) taken.querySelector(`[aria-label="${CSS.escape(label)}"]`)?.focus({ preventScroll: true });
}

async function refresh() {
  if (busy) return;
  busy = true;
  try {
    const answer = await fetch(location.href, {
      cache: "no-store",
      headers: { accept: "text/html" },
      signal: AbortSignal.timeout(GIVE_UP_AFTER),
    });
    if (!answer.ok || answer.redirected) throw new Error(`answered ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const its = fresh.getElementById(part.id);
      if (its && !isHeld(part)) swap(part, its);
      else if (!its) part.remove();
    }
    document.title = fresh.title;
    shown = fresh.querySelector("#live time")?.textContent ?? shown;
    say(`Live, as of ${shown}`, false);
  } catch {
    say(`Not refreshed since ${shown}. What you see may be old.`, true);
  } finally {
    busy = false;
  }
}

function run() {
  clearInterval(timer);
  if (document.hidden) return;
  timer = setInterval(refresh, EVERY);
}

if (status) {
  document.addEventListener("visibilitychange", () => {
    run();
    if (!document.hidden) refresh();
  });
  run();
}
