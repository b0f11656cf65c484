// Keeps the page up to date: the service says when the campaign has changed, and the page reads what it shows.
"use strict";
(() => {
  const name = document.getElementById("campaign").dataset.campaign;
  const live = document.getElementById("live");
  const size = document.getElementById("size");
  const waiting = new Map(); // part → markup that waits until the user has finished typing in it

  function isBusy(place) {
    const active = document.activeElement;
    return place.contains(active) && active.matches("input, select, textarea");
  }

  // The markup comes from the service, which escapes every text of the campaign.
  function put(place, markup) {
    const scroll = place.querySelector(".scroll");
    const [x, y] = scroll ? [scroll.scrollLeft, scroll.scrollTop] : [0, 0];
    const opened = [...place.querySelectorAll("details")].map((each) => each.open);
    place.innerHTML = markup;
    place.querySelectorAll("details").forEach((each, i) => (each.open = Boolean(opened[i])));
    place.querySelector(".scroll")?.scrollTo(x, y);
  }

  function show(parts) {
    for (const place of document.querySelectorAll("[data-part]")) {
      const markup = parts[place.dataset.part];
      if (markup === undefined) continue;
      if (isBusy(place)) waiting.set(place, markup);
      else put(place, markup);
    }
  }

  document.addEventListener("focusout", () => {
    setTimeout(() => {
      for (const [place, markup] of [...waiting])
        if (!isBusy(place)) {
          waiting.delete(place);
          put(place, markup);
        }
    });
  });

  async function read(address) {
    const answer = await fetch(address);
    if (answer.status === 401) window.location.assign(`/login?next=${encodeURIComponent(window.location.pathname)}`);
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    return said;
  }

  function problem(place, text) {
    for (const each of document.querySelectorAll(place)) {
      const line = document.createElement("p");
      line.className = "empty problem";
      line.textContent = text;
      each.replaceChildren(line);
    }
  }

  async function refresh() {
    show((await read(`/page/${name}/rows`)).parts);
    document.body.dataset.rows = String(Number(document.body.dataset.rows || 0) + 1);
    try {
      const wanted = size && size.validity.valid ? size.value : "";
      const model = await read(`/page/${name}/model?n=${encodeURIComponent(wanted)}`);
      show(model.parts);
      await window.manyarmsFigures.show(model.figures);
    } catch (said) {
      problem("[data-figures]", said.message);
    }
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
  }

  let running = false;
  let again = false;
  async function changed() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    do {
      again = false;
      try {
        await refresh();
        live.textContent = "live";
      } catch {
        live.textContent = "not connected: trying again…";
      }
    } while (again);
    running = false;
  }

  // A browser opens the stream again when the connection is lost, but not after any other answer than 200.
  let pause = 1000;
  function connect() {
    const events = new EventSource(`/campaigns/${name}/events`);
    events.addEventListener("open", () => {
      live.textContent = "live";
      pause = 1000;
    });
    events.addEventListener("change", changed);
    events.addEventListener("error", () => {
      live.textContent = "not connected: trying again…";
      if (events.readyState !== EventSource.CLOSED) return;
      setTimeout(async () => {
        await changed(); // leads to the login form if the session has ended
        connect();
      }, pause);
      pause = Math.min(2 * pause, 30000);
    });
  }
  connect();
  if (size) {
    let timer;
    size.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(changed, 400);
    });
  }
})();
