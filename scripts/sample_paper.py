#!/usr/bin/env python3
"""sample_paper.py REPORT OUT: a paper of two pages from what `mneme report` wrote into the folder REPORT, typeset into OUT.

The first page has the verdict and the table; the second what was trained on what, and two figures. Figures come
from `mneme report --figures pdf`; without them the paper has none, and says so. OUT gets paper.pdf, and tables.pdf with all
tables of report.tex. Exit code 1: LaTeX failed, or a box is wider or higher than its place; 77: there is no pdflatex, or it
lacks booktabs or graphicx.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

PAPER = r"""\documentclass{article}
\usepackage{booktabs,graphicx}
\renewcommand{\topfraction}{0.9}
\renewcommand{\bottomfraction}{0.9}
\renewcommand{\textfraction}{0.05}
\title{%(title)s}
\author{Anonymous}
\date{}
\begin{document}
\maketitle
\section{Result}
\sloppy
%(verdict)s
\input{table.tex}
\clearpage
\section{Setting}
\begin{itemize}
%(setup)s
\end{itemize}
%(figures)s
\end{document}
"""

TABLES = r"""\documentclass{article}
\usepackage{booktabs,graphicx}
\begin{document}
\input{report.tex}
\end{document}
"""

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
           ">": r"\textgreater{}", "|": r"\textbar{}", **{c: "\\" + c for c in "&%$#_{}"}}


def latex(text):
    """Plain text as LaTeX prints it; names may break behind their marks."""
    text = "".join(SPECIAL.get(c, c) for c in text)
    text = re.sub(r'"([^"]*)"', r"``\1''", text)
    text = re.sub(r"(?<![\w])-(?=\d)", "$-$", text)
    text = re.sub(r"--(?=\w)", "-{}-", text)
    return re.sub(r"(\\_|/|=)(?=\w)", r"\1\\allowbreak ", text)


def typeset(folder, name, text):
    """Runs pdflatex twice, for references; the lines of its log about boxes that do not fit."""
    (folder / f"{name}.tex").write_text(text, encoding="utf-8")
    for _ in range(2):
        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            print(done.stdout.decode("utf-8", "replace")[-3000:], file=sys.stderr)
            sys.exit(f"{folder / name}.tex: pdflatex ended with {done.returncode}")
    log = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
    return [line for line in log.splitlines() if line.startswith("Overfull") or "Float too large" in line]


def pages(folder, name):
    log = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"\((\d+)\s+pages?", log.replace("\n", " "))
    return int(found.group(1)) if found else 0


def chosen_figures(report, folder):
    """Keys of two figures that are drawn: a sweep's or the differences, and then where they arise, or the training."""
    drawn = [key for key in report["figures"] if (folder / "figures" / f"{key}.pdf").is_file()]
    order = ("loss-over-setting", "difference", "distance", "place", "training-loss")
    ranked = sorted(drawn, key=lambda key: next((i for i, start in enumerate(order) if key.startswith(start)), len(order)))
    chosen = []
    for key in ranked:  # of each kind one
        if all(key.split("-")[0] != other.split("-")[0] for other in chosen):
            chosen.append(key)
    return chosen[:2]


def figure(report_folder, out, key, number):
    """The figure as an environment; its picture is copied, for its name may have any letter."""
    shutil.copyfile(report_folder / "figures" / f"{key}.pdf", out / f"figure-{number}.pdf")
    spec = json.loads((report_folder / "figures" / f"{key}.vl.json").read_text(encoding="utf-8"))
    caption = latex(f"{spec['title']}. {spec.get('description', '')}".strip())
    return (f"\\begin{{figure}}[!b]\n\\centering\n\\includegraphics[width=0.9\\linewidth,height=0.36\\textheight,keepaspectratio]{{figure-{number}.pdf}}\n"
            f"\\caption{{{caption}}}\\label{{fig:{number}}}\n\\end{{figure}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="folder that `mneme report` or `mneme compare` wrote")
    parser.add_argument("out", type=pathlib.Path, help="folder for the paper; it is made")
    options = parser.parse_args()
    for file in ("report.json", "report.tex", "table.tex"):
        if not (options.report / file).is_file():
            sys.exit(f"{options.report}: expected the folder of a report, got no {file}; write it with mneme report")
    if shutil.which("pdflatex") is None:
        print("skipped: no pdflatex (Debian: texlive-latex-base, texlive-latex-recommended)")
        return 77
    for package in ("booktabs", "graphicx"):
        found = subprocess.run(["kpsewhich", package + ".sty"], stdout=subprocess.DEVNULL, check=False)
        if found.returncode != 0:
            print(f"skipped: pdflatex has no {package}.sty (Debian: texlive-latex-recommended)")
            return 77
    report = json.loads((options.report / "report.json").read_text(encoding="utf-8"))
    options.out.mkdir(parents=True, exist_ok=True)
    for file in ("report.tex", "table.tex"):
        shutil.copyfile(options.report / file, options.out / file)
    keys = chosen_figures(report, options.report)
    if not keys:
        print("no figures: mneme report --figures pdf draws them")
    figures = [figure(options.report, options.out, key, number) for number, key in enumerate(keys, 1)]
    names = [arm["name"] for arm in report["arms"]]
    shown = []
    for sentence in report["verdict"]:  # those of many arms fill pages
        if sum(map(len, shown)) + len(sentence) < 1000:
            shown.append(sentence)
    text = PAPER % {
        "title": latex("Comparison of " + ", ".join(names if len(names) < 6 else names[:5] + ["others"])),
        "verdict": "\n\n".join(latex(sentence) for sentence in shown),
        "setup": "\n".join(f"\\item {latex(key)}: {latex(value)}" for key, value in report["setup"].items()),
        "figures": "".join(figures),
    }
    problems = typeset(options.out, "paper", text) + typeset(options.out, "tables", TABLES)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{options.out / 'paper.pdf'}: {pages(options.out, 'paper')} pages; "
          f"{options.out / 'tables.pdf'}: {pages(options.out, 'tables')} pages")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
