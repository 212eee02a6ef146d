"""vega_bundle.py FILE: writes Vega, Vega-Lite and Vega-Embed as one script, as vl-convert-python has them.

The script must be fit to stand in an HTML page: one that holds "</script" or "<!--" is refused.
"""

import os
import sys

import vl_convert


def main() -> int:
    path = sys.argv[1]
    script = vl_convert.javascript_bundle()
    for text in ("</script", "<!--"):
        if text in script:
            print(f"vega_bundle.py: the script of vl-convert-python {vl_convert.__version__} holds {text}", file=sys.stderr)
            return 1
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(script)
    os.replace(temporary, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
