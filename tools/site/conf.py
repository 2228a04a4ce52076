"""Settings of Sphinx for the site: https://www.sphinx-doc.org/en/master/usage/configuration.html"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import blocks  # noqa: E402
import pages  # noqa: E402
from sphinx.highlighting import PygmentsBridge  # noqa: E402

project = html_title = "ddp.c"
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 6
myst_url_schemes = {"http": None, "https": None, "src": "{{path}}"}  # src: a page that pages.py makes, not Sphinx
smartquotes = False  # --option stays as it is
highlight_language = "none"
pygments_style = pygments_dark_style = "none"  # site.css colours code: red and green are the diffs'
suppress_warnings = ["misc.highlighting_failure"]  # quotations are cut anywhere

html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["static", "../../docs/colours.css"]
html_css_files = ["colours.css", "site.css"]
html_js_files = ["site.js"]
html_search_scorer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scorer.js")
html_show_search_summary = False  # it reads pages, which a browser refuses for file://; see site.js
html_copy_source = html_show_sourcelink = html_use_index = html_domain_indices = False
html_show_copyright = html_show_sphinx = False


def setup(app):
    blocks.highlight(PygmentsBridge)
    site = pages.Site(str(app.srcdir))
    site.write_pages()
    app.connect("html-page-context", lambda app, page, *_: page == "index" and app.add_css_file("landing.css", priority=900))
    app.connect("config-inited", lambda app, config: config.html_static_path.append(str(app.srcdir / "_static")))
    app.connect("build-finished", lambda app, error: error or site.write_sources(str(app.outdir)))
