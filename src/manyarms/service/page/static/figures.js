// The figures of the page: made once, then kept up to date. Texts are set as text, never as markup.
"use strict";
(() => {
  function made(item) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const title = document.createElement("h3");
    const text = document.createElement("p");
    title.textContent = item.title;
    caption.append(title, text);
    figure.append(caption);
    figure.dataset.title = item.title;
    figure.dataset.kind = item.spec ? "chart" : "empty";
    if (item.spec) {
      const place = document.createElement("div");
      place.className = "chart";
      figure.append(place);
    }
    return figure;
  }

  function matches(figure, item) {
    return figure && figure.dataset.title === item.title && (figure.dataset.kind === "chart") === Boolean(item.spec);
  }

  function section(place, items) {
    const present = [...place.querySelectorAll("figure")];
    const kept = present.length === items.length && items.every((item, i) => matches(present[i], item));
    if (!kept) place.replaceChildren(...items.map(made));
    place.classList.toggle("alone", items.length === 1);
    return Promise.all(
      [...place.querySelectorAll("figure")].map((figure, i) => {
        figure.querySelector("figcaption p").textContent = items[i].caption;
        return items[i].spec && window.manyarmsCharts.draw(figure.querySelector(".chart"), items[i].spec);
      }),
    );
  }

  window.manyarmsFigures = {
    show(sections) {
      return Promise.all(
        [...document.querySelectorAll("[data-figures]")].map((place) => section(place, sections[place.dataset.figures] || [])),
      );
    },
  };
})();
