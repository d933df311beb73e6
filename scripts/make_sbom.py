#!/usr/bin/env python3
"""Writes the software bill of materials of a release, as CycloneDX in JSON: `just dist`.

It lists what hotseat ships of others: the JavaScript in the wheel, that of the documentation in the source package, and
the locked Python packages, which the image contains. It has no date, so the same sources give the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packaging.licenses import canonicalize_license_expression
from packaging.markers import Marker

from hotseat import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[1]
LOCKED = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[.*\])?==(?P<version>[^\s;]+)(?: ; (?P<marker>.*?))? \\\n(?P<rest>(?: .*\n)+)", re.MULTILINE
)
VIA = re.compile(r"#(?: via)? +([\w.-]+)")
NOTED = re.compile(r"^(\S+) ([\d.]+) \((.+)\)$", re.MULTILINE)
SWAGGER_UI = re.compile(r"swagger-ui ([\d.]+) \(npm package (\S+)\)")
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2 License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "ISC License": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "MIT License": "MIT",
}
"""What packages without an SPDX expression say, as one."""


@dataclass(frozen=True, slots=True)
class Component:
    registry: str
    """The type of its package URL: pypi or npm."""
    name: str
    version: str
    licence: str
    shipped_in: str
    used_by: tuple[str, ...] = ("hotseat",)

    @property
    def purl(self) -> str:
        return f"pkg:{self.registry}/{quote(self.name)}@{self.version}"


def main(folder: Path) -> None:
    target = folder / f"hotseat-{__version__}.cdx.json"
    target.write_text(json.dumps(bill(), indent=2) + "\n")
    print(target)


def components() -> list[Component]:
    return [*dashboard(), swagger_ui(), *documentation(), *python_packages()]


def dashboard() -> Iterator[Component]:
    """What esbuild has put into the dashboard: its build lists it with the licences."""
    yield from noted("src/hotseat/dashboard/assets/LICENSES", "wheel")


def documentation() -> Iterator[Component]:
    yield from noted("docs/assets/iframe-worker.LICENSE", "source package")


def noted(file: str, shipped_in: str) -> Iterator[Component]:
    for name, version, licence in NOTED.findall((REPOSITORY / file).read_text()):
        yield Component("npm", name, version, licence, shipped_in)


def swagger_ui() -> Component:
    notice = SWAGGER_UI.search((REPOSITORY / "src/hotseat/api/assets/NOTICE").read_text())
    assert notice, "NOTICE names no version of swagger-ui"
    return Component("npm", notice[2], notice[1], "Apache-2.0", "wheel")


def python_packages() -> Iterator[Component]:
    """The locked packages, except those for other platforms."""
    for package in LOCKED.finditer((REPOSITORY / "requirements/runtime.txt").read_text()):
        if not package["marker"] or Marker(package["marker"]).evaluate():
            used_by = tuple(VIA.findall(package["rest"]))
            yield Component("pypi", package["name"], package["version"], licence_of(package["name"]), "image", used_by)


def licence_of(name: str) -> str:
    """The SPDX expression of an installed package."""
    about = metadata(name)
    classifiers = [each for each in about.get_all("Classifier") or [] if each.startswith("License ::")]
    said = next(
        (about[field] for field in ("License-Expression", "License") if field in about), " AND ".join(classifiers)
    )
    try:
        return canonicalize_license_expression(SPDX.get(said, said))
    except ValueError:
        raise SystemExit(
            f"{name} has the licence {said!r}. Add its SPDX identifier to {Path(__file__).name}."
        ) from None


def bill() -> dict[str, Any]:
    found = components()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": ours()},
        "components": [entry(component) for component in found],
        "dependencies": dependencies(found),
    }


def ours() -> dict[str, Any]:
    purl = f"pkg:pypi/hotseat@{__version__}"
    about = {"type": "application", "bom-ref": purl, "name": "hotseat", "version": __version__, "purl": purl}
    return {**about, "licenses": licences("MIT")}


def entry(component: Component) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        "licenses": licences(component.licence),
        "purl": component.purl,
        "properties": [{"name": "hotseat:shipped-in", "value": component.shipped_in}],
    }


def licences(expression: str) -> list[dict[str, Any]]:
    return [{"expression": expression} if " " in expression else {"license": {"id": expression}}]


def dependencies(found: list[Component]) -> list[dict[str, Any]]:
    refs = {"hotseat": ours()["bom-ref"], **{component.name: component.purl for component in found}}
    return [
        {"ref": ref, "dependsOn": [component.purl for component in found if name in component.used_by]}
        for name, ref in refs.items()
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
