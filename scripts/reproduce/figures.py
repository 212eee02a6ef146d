"""Figures of the scripts reproduce_*.py: Vega-Lite specifications with their data inside, in the theme of the program's
own (host/figure/theme.json), and SVG files of such specifications for docs.

    figures.py SPEC.vl.json FIGURE.svg     draws one; needs vl-convert-python, which scripts/setup.sh puts into .venv
"""
import json
import pathlib
import subprocess
import sys

from experiment_runs import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv/bin/python"
DOTS = 40  # most points of a line that have one
WIDTH, HEIGHT = 640, 280
LEGEND = 600  # pixels


def theme(text="#1f2328", background="#ffffff"):
    """The "config" of a figure on white, its colours, and the dashes of lines that have them for the first, second, ... time."""
    file = (ROOT / "host/figure/theme.json").read_text(encoding="utf-8").replace("currentColor", text)
    parts = json.loads(file)
    return {**parts["config"], "background": background}, parts["colours"], parts["dashes"]


def lines(title, x_title, y_title, series, colour_title="memory", from_zero=True):
    """A specification of points and the lines between them. series: {name: [(x, y), ...]}; names without points are left
    out. The y axis begins at 0, or at the lowest value."""
    config, colours, dashes = theme()
    names = [name for name, line in series.items() if line]
    values = [{"name": name, "x": x, "y": y} for name in names for x, y in sorted(series[name])]
    most = max((len(series[name]) for name in names), default=0)
    legend = {"title": colour_title, "orient": "top",
              "columns": max(1, min(8, LEGEND // (7 * max(map(len, names), default=1) + 32)))}

    def channel(kinds, step):
        """The names told apart; names behind the last colour have the colours again, with another shape and dash."""
        of = [kinds[i // step % len(kinds)] for i in range(len(names))]
        return {"field": "name", "type": "nominal", "scale": {"domain": names, "range": of}, "legend": legend}

    encoding = {"x": {"field": "x", "type": "quantitative", "title": x_title, "scale": {"zero": False}},
                "y": {"field": "y", "type": "quantitative", "title": y_title, "scale": {"zero": from_zero}},
                "color": channel(colours, 1)}
    line, points = dict(encoding), dict(encoding)
    if len(names) > len(colours):
        line["strokeDash"] = channel(dashes, len(colours))
        points["shape"] = channel(["circle", "square", "triangle-up", "diamond"], len(colours))
    tips = [{"field": "name", "title": colour_title}, {"field": "x", "title": x_title}, {"field": "y", "title": y_title}]
    point = {"type": "point", "filled": True, "size": 36, "opacity": 1 if most <= DOTS else 0}
    return {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "title": title, "width": WIDTH, "height": HEIGHT,
            "autosize": {"type": "fit-x", "contains": "padding"}, "data": {"values": values},
            "layer": [{"mark": {"type": "line"}, "encoding": line},
                      {"mark": point, "encoding": {**points, "tooltip": tips}}],
            "config": config}


def write(path, specification):
    """Writes a specification; without points no file."""
    if specification["data"]["values"]:
        path.write_text(json.dumps(specification, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def draw(specification, picture):
    """Draws the file of a specification as SVG."""
    try:
        import vl_convert
    except ImportError:
        command = [PYTHON, __file__, specification, picture]
        if sys.executable == str(PYTHON) or not PYTHON.exists() or subprocess.run(command).returncode != 0:
            raise Failure(f"{picture} cannot be drawn: vl-convert-python is needed; run scripts/setup.sh, which installs it "
                          "into .venv") from None
        return
    figure = json.loads(specification.read_text(encoding="utf-8"))
    for part in (figure, figure.get("spec", {})):  # points that are there for tooltips alone
        part.update({"layer": [one for one in part["layer"] if one["mark"].get("opacity") != 0]} if "layer" in part else {})
    picture.write_text(vl_convert.vegalite_to_svg(figure) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"figures.py: expected a specification and a picture, got {len(sys.argv) - 1} arguments; "
                 "use: figures.py SPEC.vl.json FIGURE.svg")
    try:
        draw(*map(pathlib.Path, sys.argv[1:]))
    except Failure as failure:
        sys.exit(str(failure))
