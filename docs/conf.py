"""How the documentation's site is built: `make docs`."""

project = "Waybill"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "Waybill"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 4
# A page that no list names is found by the search and by the links that lead to it. Pygments' lexer of Solidity does not
# know 200_000, and highlights such a block without it.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]
