// Draws the figures of a report: each <script class="specification"> into the element that its
// data-plot names.
(function () {
  "use strict";
  const read = (element) => JSON.parse(element.textContent);
  const config = read(document.getElementById("theme"));
  const actions = {export: {svg: true, png: true}, source: false, compiled: false, editor: false};
  const draw = (element) => {
    const place = document.getElementById(element.dataset.plot);
    return vegaEmbed(place, read(element), {
      mode: "vega-lite", renderer: "svg", config: config, actions: actions, scaleFactor: 2,
      downloadFileName: element.dataset.file,
    }).catch((error) => {
      place.textContent = "This figure could not be drawn: " + error.message;
      console.error(error);
    });
  };
  const all = Array.from(document.querySelectorAll("script.specification"));
  Promise.all(all.map(draw)).then(() => { document.body.dataset.drawn = String(all.length); });
})();
