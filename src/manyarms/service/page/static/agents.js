// Keeps the page of a run up to date: it reads its parts again every few seconds while somebody looks at it.
"use strict";
(() => {
  const run = document.getElementById("run").dataset.run;
  const live = document.getElementById("live");
  const SECONDS = 3;

  // The markup comes from the service, which escapes every text of the run.
  function put(place, markup) {
    if (place.innerHTML === markup) return;
    const scroll = place.querySelector(".scroll");
    const focused = scroll !== null && document.activeElement === scroll;
    const [x, y] = scroll ? [scroll.scrollLeft, scroll.scrollTop] : [0, 0];
    place.innerHTML = markup;
    const again = place.querySelector(".scroll");
    again?.scrollTo(x, y);
    if (focused) again?.focus();
  }

  async function refresh() {
    const answer = await fetch(`/agents/${run}/parts`);
    if (answer.status === 401) window.location.assign(`/login?next=${encodeURIComponent(window.location.pathname)}`);
    if (!answer.ok) throw new Error(String(answer.status));
    const { parts } = await answer.json();
    for (const place of document.querySelectorAll("[data-part]")) {
      const markup = parts[place.dataset.part];
      if (markup !== undefined) put(place, markup);
    }
    document.body.dataset.read = String(Number(document.body.dataset.read || 0) + 1);
  }

  async function keepUp() {
    if (!document.hidden) {
      try {
        await refresh();
        live.textContent = "live";
      } catch {
        live.textContent = "not connected: trying again…";
      }
    }
    setTimeout(keepUp, SECONDS * 1000);
  }

  keepUp();
})();
