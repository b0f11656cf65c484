// Draws the charts of a page. The descriptions are JSON in the page; nothing is requested and nothing is evaluated:
// `ast: true` makes Vega interpret its expressions, so the security policy needs no 'unsafe-eval'.
(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const themes = JSON.parse(document.getElementById("chart-themes").textContent);
  const drawn = new Map(); // place → { spec, view, columns }
  const latest = new Map(); // place → number of its latest drawing

  const columnsFor = (place) => Math.max(1, Math.floor((place.clientWidth - 60) / 190)); // of the legend

  function themeFor(place) {
    const theme = themes[dark.matches ? "dark" : "light"];
    return { ...theme, legend: { ...theme.legend, columns: columnsFor(place) } };
  }

  async function draw(place, spec) {
    const turn = (latest.get(place) || 0) + 1;
    latest.set(place, turn);
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    place.append(canvas);
    const made = await window.vegaEmbed(canvas, spec, {
      mode: "vega-lite",
      renderer: "svg",
      actions: false,
      ast: true,
      defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
      config: themeFor(place),
    });
    if (latest.get(place) !== turn) {
      made.finalize();
      canvas.remove();
      return;
    }
    const old = drawn.get(place);
    drawn.set(place, { spec, view: made, columns: columnsFor(place) });
    if (old) old.view.finalize();
    for (const other of [...place.children]) if (other !== canvas) other.remove();
    place.dataset.drawn = "yes";
  }

  function drawAll(root) {
    return Promise.all(
      [...root.querySelectorAll("[data-chart]")].map((place) => {
        const spec = document.getElementById(place.dataset.chart);
        return draw(place, JSON.parse(spec.textContent));
      }),
    );
  }

  function redraw(needed) {
    for (const [place, now] of [...drawn]) {
      if (!place.isConnected) {
        now.view.finalize();
        drawn.delete(place);
      } else if (needed(place, now)) draw(place, now.spec);
    }
  }

  dark.addEventListener("change", () => redraw(() => true));
  window.addEventListener("resize", () => redraw((place, now) => columnsFor(place) !== now.columns));
  window.manyarmsCharts = { draw, ready: drawAll(document) };
})();
