"""Write THIRD_PARTY_LICENSES: the licenses of what is linked into the kernel, from the packages that Cargo.lock names.

Where a package offers several licenses, MIT is chosen. Texts that no package brings stand in ``rust/licenses``: those
of a package, under its name, and those of the libraries that compilers link in. With ``--check`` nothing is written,
and the exit code says whether the file is the one that would be.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "rust" / "licenses"
WRITTEN = ROOT / "THIRD_PARTY_LICENSES"
# the license of the C library whose name a package declares to link; that of blosc stands in TEXTS
VENDORED = {
    "libdeflate": "libdeflate/COPYING",
    "lzma": "xz/COPYING.0BSD",
    "lz4": "liblz4/lib/LICENSE",
    "zstd": "zstd/LICENSE",
}
HEAD = """\
tegula is under the license in the file LICENSE. Its kernel, where it is compiled, contains what follows, under these
licenses. The page of `tegula serve` has a file of its own, licenses.txt.
"""
RULE = "=" * 80


def linked() -> tuple[list[dict], list[str]]:
    """Return the crates that the kernel links on some platform, and the crates that only its build needs, by name."""
    command = "cargo metadata --locked --format-version 1 --manifest-path rust/Cargo.toml".split()
    found = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    reached, open_ids = set(), [name for name, package in packages.items() if package["name"] == "tegula-python"]
    while open_ids:
        reached.add(current := open_ids.pop())
        for needed in nodes[current]["deps"]:
            macro = any("proc-macro" in target["kind"] for target in packages[needed["pkg"]]["targets"])
            normal = any(kind["kind"] is None for kind in needed["dep_kinds"])
            if normal and not macro and needed["pkg"] not in reached:
                open_ids.append(needed["pkg"])
    ours = set(found["workspace_members"])
    contained, others = (
        sorted((packages[name] for name in names), key=lambda package: package["name"])
        for names in (reached - ours, packages.keys() - reached - ours)
    )
    return contained, [f"{package['name']} {package['version']}" for package in others]


def texts(package: dict) -> list[str]:
    """Return the license texts of a package and of the C library in it."""
    name, folder = package["name"], Path(package["manifest_path"]).parent
    own = TEXTS / f"{name}.txt"
    if own.exists():
        return [own.read_text()]
    files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(("LICENSE", "COPYING")))
    files = [path for path in files if "MIT" in path.name] or files
    if package["links"] and "python" not in package["links"]:
        files.append(folder / VENDORED[package["links"]])
    if not files:
        raise SystemExit(f"{name} has no license text: put it into {own}")
    return ["\n".join(map(str.rstrip, path.read_text().strip("\n").splitlines())) + "\n" for path in files]


def document() -> str:
    """Return what belongs into the file; packages whose texts are the same stand above one copy of these."""
    packages, others = linked()
    by_texts: dict[str, list[str]] = {}
    for package in packages:
        title = f"{package['name']} {package['version']} ({package['license']})"
        by_texts.setdefault("\n".join(texts(package)), []).append(title)
    names = {package["name"] for package in packages}
    for path in sorted(TEXTS.glob("*.txt")):
        if path.stem not in names:
            by_texts[path.read_text()] = [path.stem]
    parts = [f"{RULE}\n{chr(10).join(titles)}\n{RULE}\n\n{text}" for text, titles in by_texts.items()]
    built = "Used while the kernel is built, and not contained in it:\n" + "\n".join(others) + "\n"
    return "\n".join((HEAD, *parts, f"{RULE}\n{built}"))


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if WRITTEN.read_text() == document() else "THIRD_PARTY_LICENSES is old: run python .ci/licenses.py")
    WRITTEN.write_text(document())
