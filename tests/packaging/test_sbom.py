"""The bill of materials of a release has the form of CycloneDX, and lists everything of others that hotseat ships."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from packaging.licenses import canonicalize_license_expression
from scripts.make_sbom import REPOSITORY, bill, licence_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def sbom() -> dict[str, Any]:
    return bill()


def shipped(sbom: dict[str, Any], registry: str) -> dict[str, str]:
    """Names and versions of the components from a registry."""
    prefix = f"pkg:{registry}/"
    return {each["name"]: each["version"] for each in sbom["components"] if each["purl"].startswith(prefix)}


def test_the_bill_has_the_form_of_cyclonedx(sbom: dict[str, Any]) -> None:
    """What version 1.6 demands: known types, one reference for each component, and dependencies among those."""
    described = [sbom["metadata"]["component"], *sbom["components"]]
    refs = [each["bom-ref"] for each in described]

    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.6", 1)
    assert [each["type"] for each in described] == ["application", *["library"] * len(sbom["components"])]
    assert len(set(refs)) == len(refs)
    assert [entry["ref"] for entry in sbom["dependencies"]] == refs


def test_every_licence_is_known_to_spdx(sbom: dict[str, Any]) -> None:
    """One identifier, or an expression of several."""
    for (licence,) in [each["licenses"] for each in sbom["components"]]:
        said = licence["expression"] if "expression" in licence else licence["license"]["id"]

        assert canonicalize_license_expression(said) == said
        assert ("expression" in licence) is (" " in said)


def test_every_package_of_the_dashboard_is_listed(sbom: dict[str, Any]) -> None:
    """Those that npm installs for more than the build, in the versions that it installs."""
    lock = json.loads((REPOSITORY / "dashboard/package-lock.json").read_text())["packages"]
    bundled = {
        path.removeprefix("node_modules/"): package["version"]
        for path, package in lock.items()
        if path and not package.get("dev")
    }

    assert bundled.items() <= shipped(sbom, "npm").items()
    assert set(shipped(sbom, "npm")) - set(bundled) == {"swagger-ui-dist", "iframe-worker"}


def test_every_script_in_the_wheel_is_ours_or_listed() -> None:
    """Another library would be another file, in a folder that has a notice."""
    scripts = {
        re.sub(r"-[A-Z0-9]{8}\.js$", ".js", path.relative_to(REPOSITORY / "src/hotseat").as_posix())
        for path in (REPOSITORY / "src/hotseat").rglob("*.js")
    }

    assert scripts == {
        "dashboard/assets/files/app.js",
        "dashboard/assets/files/theme.js",
        "api/assets/swagger-start.js",
        "api/assets/swagger-ui-bundle.js",
    }


def test_every_locked_package_is_listed(sbom: dict[str, Any]) -> None:
    """Except the two that Linux and macOS do not need."""
    locked = dict(
        re.findall(r"^([\w-]+)==([^\s;]+)", (REPOSITORY / "requirements/runtime.txt").read_text(), re.MULTILINE)
    )

    assert shipped(sbom, "pypi").items() <= locked.items()
    assert set(locked) - set(shipped(sbom, "pypi")) == {"colorama", "httpx2-jsfetch"}


def test_every_component_is_needed_by_another(sbom: dict[str, Any]) -> None:
    """From hotseat on, the dependencies lead to each of them."""
    needs = {entry["ref"]: entry["dependsOn"] for entry in sbom["dependencies"]}
    reached, new = set[str](), {sbom["metadata"]["component"]["bom-ref"]}
    while new:
        reached |= new
        new = {need for ref in new for need in needs[ref]} - reached

    assert reached == set(needs)


def test_a_package_without_a_known_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops the release, with what to do."""
    monkeypatch.setattr("scripts.make_sbom.SPDX", {})

    with pytest.raises(SystemExit, match=r"nkeys has the licence 'Apache 2 License'\. Add its SPDX identifier"):
        licence_of("nkeys")


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_a_release_has_packages_bill_and_checksums(tmp_path: Path) -> None:
    """`just dist` writes them, and the checksums are right."""
    just = [f"{sys.prefix}/bin/just", f"venv={sys.prefix}", f"dist={tmp_path / 'dist'}", "dist"]
    subprocess.run(just, cwd=REPOSITORY, check=True, capture_output=True)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "dist", check=True)

    names = {re.sub(r"-\d[\w.]*?(?=-py3|\.tar|\.cdx)", "", path.name) for path in (tmp_path / "dist").iterdir()}
    assert names == {"hotseat-py3-none-any.whl", "hotseat.tar.gz", "hotseat.cdx.json", "SHA256SUMS"}
    assert len((tmp_path / "dist/SHA256SUMS").read_text().splitlines()) == 3
    assert json.loads(next((tmp_path / "dist").glob("*.cdx.json")).read_text()) == bill()
    assert ZipFile(next((tmp_path / "dist").glob("*.whl"))).testzip() is None
