"""What mkdocs needs to show the tree as it is: the pages of the root join those of docs/, and links that lead out of both become text."""

import posixpath
import re

from mkdocs.structure.files import File

ROOT_PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "ARCHITECTURE.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files, config):
    for path, shown in ROOT_PAGES.items():
        with open(path, encoding="utf-8") as text:
            files.append(File.generated(config, shown, content=text.read()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Targets are paths of the repository; mkdocs wants them as paths of the site."""
    shown = page.file.src_uri
    folder = "" if shown in ROOT_PAGES.values() else posixpath.dirname(posixpath.join("docs", shown))

    def mended(link):
        picture, words, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target or "://" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        site_path = ROOT_PAGES.get(path) or path.removeprefix("docs/")
        if path not in ROOT_PAGES and (not path.startswith("docs/") or files.get_file_from_path(site_path) is None):
            return f"`{path}`" if words.strip("`").endswith(posixpath.basename(path)) else f"{words} (`{path}`)"
        return f"{picture}[{words}]({posixpath.relpath(site_path, posixpath.dirname(shown) or '.')}{anchor})"

    return LINK.sub(mended, markdown)
