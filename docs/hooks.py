"""Hook of mkdocs: links from notebooks to Markdown pages, which mkdocs-jupyter leaves as they are."""

import re


def on_page_content(html, page, config, files):
    """Replace the paths of pages in a notebook by their addresses; an unknown page is an error."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html

    def link(match):
        path, anchor = match.groups(default="")
        return f'href="{files.get_file_from_path(path).url_relative_to(page.file)}{anchor}"'

    return re.sub(r'href="([\w/]+\.md)(#[\w-]*)?"', link, html)
