"""figures_test.py PROGRAM VEGA_IS_BUILT_IN [--browser CHROMIUM]: the figures of reports with made-up losses.

Without --browser: every specification is accepted by vl-convert without a warning, draws marks, and shows its axis titles
and the names of the arms; written pages have no outside reference. With it: a headless browser opens the pages, draws every
figure, and reports no error. Exit code 77: vl_convert cannot be imported, or there is no browser.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

LIGHT_TEXT, DARK_TEXT = "#1f2328", "#e6e6e6"
SVG = "{http://www.w3.org/2000/svg}"


def fail(message):
    print("failed:", message, file=sys.stderr)
    sys.exit(1)


def expect(condition, message):
    if not condition:
        fail(message)


def texts_of(svg):
    return ["".join(element.itertext()) for element in svg.iter(SVG + "text")]


def marks_of(svg):
    """Elements of mark groups that are no axis, legend or background."""
    count = 0
    for group in svg.iter(SVG + "g"):
        role = group.get("class") or ""
        if "role-mark" in role:
            count += len(list(group.iter(SVG + "path"))) + len(list(group.iter(SVG + "line")))
    return count


def box_is_inside(svg, name):
    """The places of texts, as far as their own transform says, lie inside the picture."""
    width = float(svg.get("width"))
    for element in svg.iter(SVG + "text"):
        moved = re.match(r"translate\((-?[\d.]+)", element.get("transform") or "")
        if moved:
            expect(float(moved.group(1)) <= width, f"{name}: a text begins outside the picture: {''.join(element.itertext())}")


def check_specification(vl_convert, path, arms, widths):
    spec = json.loads(path.read_text(encoding="utf-8"))
    expect(spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v5"), f"{path.name}: no schema")
    for width in widths:
        spec["width"] = width
        svg = xml.fromstring(vl_convert.vegalite_to_svg(json.dumps(spec)))
        texts = texts_of(svg)
        expect(marks_of(svg) > 0, f"{path.name}: no marks at width {width}")
        expect(abs(float(svg.get("width")) - width) <= 1, f"{path.name}: {svg.get('width')} wide, expected {width}")
        box_is_inside(svg, path.name)
        titles = {layer["encoding"][axis].get("title") for layer in spec["layer"] for axis in ("x", "y")
                  if axis in layer["encoding"] and "title" in layer["encoding"][axis]} - {None}
        for title in titles:
            expect(title in texts, f"{path.name}: the axis title {title!r} is missing or cut at width {width}: {texts}")
        shown = {value["arm"] for value in spec["data"]["values"]}
        if len(shown) == 1 and spec["title"].endswith(f": {min(shown)}"):
            shown = set()  # a figure of one arm, named in the title of the page's figure
            expect(any(text == spec["title"] or text.endswith("…") for text in texts), f"{path.name}: no title: {texts}")
        for arm in arms & shown:
            expect(arm in texts, f"{path.name}: the arm {arm!r} is not named at width {width}: {texts}")


def check_page(path):
    text = path.read_text(encoding="utf-8")
    own = text.split('id="theme"')[0]
    for outside in (" src=", " href=", "url(", "@import", "http://", "https://"):
        expect(outside not in own, f"{path}: has {outside}")


# Moves the pointer over the first point of the first figure and keeps what the tooltip says.
POINTER = """<script>
(function wait() {
  if (!document.body.dataset.drawn) { setTimeout(wait, 20); return; }
  const point = document.querySelector("#plot-0 .mark-symbol path");
  const box = point.getBoundingClientRect();
  const place = {bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2};
  for (const kind of ["pointerover", "pointermove"]) point.dispatchEvent(new PointerEvent(kind, place));
  setTimeout(() => {
    const tooltip = document.getElementById("vg-tooltip-element");
    document.body.dataset.tooltip = tooltip ? tooltip.textContent : "none";
  }, 200);
})();
</script></body>"""


def browse(browser, original, width, figures):
    """Opens the page, counts its figures and their marks, and reads a tooltip."""
    path = original.with_name("opened.html")
    before, end, after = original.read_text(encoding="utf-8").rpartition("</body>")
    expect(end, f"{original}: the body has no end")
    path.write_text(before + POINTER + after, encoding="utf-8")
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={profile}", f"--window-size={width},900", "--enable-logging=stderr", "--v=0",
             "--virtual-time-budget=60000", "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=240, check=False)
    messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    expect(not messages, f"{path}: the browser's console: {messages[:3]}")
    page = done.stdout
    expect(f'data-drawn="{figures}"' in page, f"{path}: expected {figures} drawn figures; exit code {done.returncode}, "
                                               f"{len(page)} bytes, {done.stderr[-300:]}")
    expect("could not be drawn" not in re.sub(r"<script.*?</script>", "", page, flags=re.S), f"{path}: a figure failed")
    tooltip = re.search(r'data-tooltip="([^"]*)"', page)
    expect(tooltip and tooltip.group(1).startswith("arm"), f"{path}: the tooltip says {tooltip and tooltip.group(1)}")
    plots = re.findall(r'<div class="plot[^>]*id="(plot-\d+)".*?</svg>', page, flags=re.S)
    drawn = re.findall(r'id="plot-\d+"[^>]*>.*?<svg.*?</svg>', page, flags=re.S)
    expect(len(plots) == figures and len(drawn) == figures, f"{path}: {len(drawn)} pictures, expected {figures}")
    for picture in drawn:
        expect(picture.count("role-mark") > 0 and picture.count("<path") > 4, f"{path}: an empty picture: {picture[:200]}")
        wide = re.search(r'<svg[^>]* width="([\d.]+)"', picture)
        expect(wide and float(wide.group(1)) <= width, f"{path}: a picture is wider than {width} pixels")


def main():
    arguments = sys.argv[1:]
    browser = None
    if "--browser" in arguments:
        place = arguments.index("--browser")
        browser = shutil.which(arguments[place + 1])
        if browser is None:
            print("skipped: no browser")
            return 77
        arguments = arguments[:place]
    program, has_vega = arguments
    if has_vega != "ON":
        print("skipped: the program was built without Vega-Lite")
        return 77
    try:
        import vl_convert
    except ImportError:
        vl_convert = None
    if browser is None and vl_convert is None:
        print("skipped: vl_convert cannot be imported")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run([program, str(root)], check=True, stdout=subprocess.DEVNULL)
        checked = 0
        seen = set()  # what has been drawn wide too; narrow is where things are cut, and is drawn every time
        for report in sorted(root.glob("*/report")):
            figures = sorted(report.glob("figures/*.vl.json"))
            expect(figures, f"{report}: no figures")
            if browser is not None:
                for width in (500,) if seen else (1280, 500):
                    browse(browser, report / "index.html", width, len(figures))
                seen.add("page")
            else:
                check_page(report / "index.html")
                arms = {arm["name"] for arm in json.loads((report / "report.json").read_text(encoding="utf-8"))["arms"]}
                for figure in figures:
                    check_specification(vl_convert, figure, arms, (330,) if figure.name in seen else (640, 330))
                    seen.add(figure.name)
            checked += len(figures)
        expect(checked > 40, f"only {checked} figures")
    print(f"{checked} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
