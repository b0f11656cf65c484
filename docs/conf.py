"""Settings of the documentation site: `make docs` builds it into build/docs/html."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import manyarms  # noqa: E402

project = "manyarms"
author = "The manyarms authors"
copyright = author
version = release = manyarms.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "plain_docstrings", "remaining_pages"]
exclude_patterns = ["_ext"]
html_theme = "furo"
highlight_language = "text"  # formulas and messages are not Python
html_theme_options = {
    "light_css_variables": {"code-font-size": "72%"}  # about 105 characters fit
}
html_title = f"manyarms {version}"
nitpicky = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # not the union that numpy defines it as
autodoc_mock_imports = ["altair", "distributed", "httpx", "joblib", "kernel_tuner", "optuna", "sklearn"]
linkcheck_ignore = [r"https?://"]  # links between pages are checked; other sites are not asked
