"""The wheel, the extras, and the commands that install them: none installs by a name that another project may own."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import readme_renderer.markdown

from script_modules import script
from segpaste.extras import REQUIREMENT_OF, MissingPackageError, require

ROOT = Path(__file__).parents[1]
NAME = "segpaste"

# Libraries to measure against, two under the AGPL; those of environments of their own.
NOT_IN_ALL = {"bench", "masks", "supervision", "datumaro", "fiftyone"}
# Pairs of extras of which the first holds all that the second one holds.
REPEATED = [("s3", "bank"), ("ray", "bank"), *(("bank", f"bank-{name}") for name in ("memmap", "lmdb", "webdataset"))]

# An installer, and up to the end of the command a bare name: no path such as ./NAME and no file such as NAME-1.0.whl.
INSTALLED_BY_NAME = re.compile(
    rf"\b(?:pip3?|pipx|uv|poetry|conda|mamba)\b[^\n;&|]*?\b(?:install|add|download|wheel)\b"
    rf"[^\n;&|`]*?(?<![\w./@-]){NAME}(?![\w./-])",
    re.IGNORECASE,
)
EXTRA_BY_NAME = re.compile(rf"(?<![\w./-]){NAME}\s*\[(?![.\\])", re.IGNORECASE)  # not a pattern's own bracket
LOCAL_EXTRAS = re.compile(r"""(?:install|-e)\s+['"]?\.\[([\w, -]+)\]""")
HINT = re.compile(r"pip install((?: '[^'\n]+')+)")


def project() -> dict[str, list[str]]:
    """Return the extras of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras: dict[str, list[str]] = tomllib.loads(text)["project"]["optional-dependencies"]
    return extras


def requirements() -> set[str]:
    """Return every requirement of every extra."""
    return {requirement for extra in project().values() for requirement in extra}


def tracked_texts() -> dict[str, str]:
    """Return the text of each tracked file, by its path from the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = {}
    for name in filter(None, listed.split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b"\0"
        if b"\0" not in content:
            texts[name] = content.decode("utf-8", errors="replace")
    return texts


def installs_by_name(text: str) -> list[str]:
    """Return the places of a text that install the project, or an extra of it, by its name."""
    joined = re.sub(r"\\\s*\n\s*", " ", text)  # a command that goes over several lines
    return [found[0] for pattern in (INSTALLED_BY_NAME, EXTRA_BY_NAME) for found in pattern.finditer(joined)]


def hinted_requirements(text: str) -> set[str]:
    """Return what a text says to install in the form ``pip install 'NAME>=1' 'OTHER>=2'``."""
    return {quoted for hint in HINT.findall(text) for quoted in re.findall(r"'([^']+)'", hint)}


def pip(*arguments: str) -> None:
    """Run pip of this environment, without an index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert run.returncode == 0, run.stdout + run.stderr


class TestNoInstallByName:
    def test_tracked_files(self) -> None:
        texts = tracked_texts()
        assert {"README.md", "pyproject.toml", f"src/{NAME}/extras.py", "benchmarks/__init__.py"} <= texts.keys()
        assert {path: found for path, text in texts.items() if (found := installs_by_name(text))} == {}

    @pytest.mark.parametrize(
        "text",
        [
            f"pip install {NAME}",
            f"pip install -U '{NAME}>=0.1'",
            f"python -m pip install --upgrade \\\n    {NAME}",
            f"pip install '{NAME}[bank]'",
            f"`pip install {NAME}`",
            f"uv add {NAME}",
            f"uv pip install {NAME}==0.1",
            f"conda install -c conda-forge {NAME}",
            f'all = ["{NAME}[bank,s3]"]',
            f"needs {NAME.title()} [bank]",
        ],
    )
    def test_name_is_found(self, text: str) -> None:
        assert installs_by_name(text)

    @pytest.mark.parametrize(
        "text",
        [
            "pip install '.[bank]'",
            f"pip install .\n{NAME} demo",
            f"pip install . && {NAME} demo",
            f"pip install dist/{NAME}-0.1.0-py3-none-any.whl",
            f"pip install {NAME}-0.1.0-py3-none-any.whl",
            f"{NAME} bank build x  # pip install '.[bank]'",
            f"`pip install 'lmdb>=1.4.1'` for {NAME}",
        ],
    )
    def test_other_commands_pass(self, text: str) -> None:
        assert installs_by_name(text) == []


class TestExtras:
    def test_hints_in_code_are_declared_requirements(self) -> None:
        texts = {path: text for path, text in tracked_texts().items() if path.startswith(("src/", "benchmarks/"))}
        hints = {
            path: {hint for hint in hinted_requirements(text) if hint[0] not in ".{"} for path, text in texts.items()
        }
        assert {"timm>=1.0.3", "kornia>=0.8", "tensorboard>=2.14"} <= set().union(*hints.values())
        assert {path: unknown for path, found in hints.items() if (unknown := found - requirements())} == {}

    def test_documented_extras_exist(self) -> None:
        texts = {path: text for path, text in tracked_texts().items() if path.endswith((".md", ".py", "Makefile"))}
        named = {
            path: {name.strip() for names in LOCAL_EXTRAS.findall(text) for name in names.split(",")}
            for path, text in texts.items()
        }
        assert "bank" in named["README.md"]
        assert {path: unknown for path, found in named.items() if (unknown := found - project().keys())} == {}

    def test_table_holds_declared_requirements(self) -> None:
        assert set(REQUIREMENT_OF.values()) <= requirements()

    def test_all_holds_every_other_extra(self) -> None:
        extras = project()
        others = {name: extra for name, extra in extras.items() if name not in {"all", *NOT_IN_ALL}}
        assert set(extras["all"]) == {requirement for extra in others.values() for requirement in extra}
        assert len(extras["all"]) == len(set(extras["all"]))

    @pytest.mark.parametrize(("larger", "smaller"), REPEATED)
    def test_repeated_lists_agree(self, larger: str, smaller: str) -> None:
        assert set(project()[smaller]) < set(project()[larger])

    @pytest.mark.parametrize("module", sorted(REQUIREMENT_OF))
    def test_error_names_the_package(self, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingPackageError) as caught:
            require(module)
        assert f"is not installed: pip install '{REQUIREMENT_OF[module]}'" in str(caught.value)
        assert isinstance(caught.value, ImportError)
        assert caught.value.name == module.partition(".")[0]

    @pytest.mark.parametrize(
        "text", ["import no_such_dependency", "from os import no_such_name", "raise AttributeError('old')"]
    )
    def test_error_tells_what_an_installed_package_lacks(
        self, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """ "not installed" would send the user to install what is there."""
        (tmp_path / "timm.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "timm", raising=False)
        expected = r"timm cannot be imported \(\w+Error: .*(no_such|old).*timm>=1.0.3'"
        with pytest.raises(MissingPackageError, match=expected):
            require("timm")


def rendered(text: str) -> str:
    """Return Markdown as the HTML that a package index shows."""
    html = readme_renderer.markdown.render(text)
    assert html is not None
    return str(html)


class TestReadmeOfTheIndex:
    REPOSITORY = "https://example.org/owner/segpaste"

    def test_links_and_pictures_are_absolute(self) -> None:
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        html = rendered(hatch_metadata().published(text, self.REPOSITORY))
        addresses = re.findall(r'(?:href|src)="([^"]*)"', html)
        assert f"{self.REPOSITORY}/raw/HEAD/docs/images/before-after.jpg" in addresses
        assert f"{self.REPOSITORY}/blob/HEAD/docs/guide/formats.md" in addresses
        assert [address for address in addresses if not address.startswith(("https://", "#"))] == []
        paths = [a.split("/HEAD/")[1].partition("#")[0] for a in addresses if a.startswith(self.REPOSITORY)]
        assert [path for path in paths if not (ROOT / path).exists()] == []

    def test_no_link_is_broken_without_a_repository(self) -> None:
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        html = rendered(hatch_metadata().published(text, None))
        assert "<img" not in html
        assert re.findall(r'href="(?!https://|#)[^"]*"', html) == []
        assert "instance bank" in html

    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("git@example.org:owner/segpaste.git", "https://example.org/owner/segpaste"),
            ("ssh://git@example.org/owner/segpaste", "https://example.org/owner/segpaste"),
            ("https://example.org/owner/segpaste/", "https://example.org/owner/segpaste"),
            ("https://ci-token:s3cret@example.org:8443/owner/segpaste.git", "https://example.org:8443/owner/segpaste"),
            ("ssh://git@example.org:2222/owner/segpaste.git", "https://example.org/owner/segpaste"),
            ("/srv/segpaste", None),
            ("file:///srv/segpaste", None),
            ("C:/work/segpaste", None),
        ],
    )
    def test_repository(self, address: str, expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SEGPASTE_REPOSITORY", address)
        assert hatch_metadata().repository_url(str(ROOT)) == expected


def hatch_metadata() -> ModuleType:
    """Return the build hook that makes the metadata."""
    spec = importlib.util.spec_from_file_location("hatch_metadata", ROOT / "hatch_metadata.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--no-compile", "--target", str(folder), str(wheel))
    return folder


@pytest.mark.xdist_group("wheel")
class TestWheel:
    """The wheel, built from this tree and installed by its file name."""

    def test_holds_every_tracked_file(self, wheel: Path) -> None:
        held = set(zipfile.ZipFile(wheel).namelist())
        assert {path.removeprefix("src/") for path in tracked_texts() if path.startswith("src/")} <= held
        assert f"{NAME}/_benchmarks/suite.py" in held
        assert not [name for name in held if "/results/" in name]
        assert not [name for name in held if "/tests/" in name or name.endswith(".pyc")]

    def test_metadata_refers_to_no_extra_by_name(self, wheel: Path) -> None:
        archive = zipfile.ZipFile(wheel)
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        required = [line for line in archive.read(name).decode().splitlines() if line.startswith("Requires-Dist:")]
        assert any("lmdb" in line for line in required)
        assert not [line for line in required if NAME in line]

    def test_is_imported_and_runs(self, installed: Path, tmp_path: Path) -> None:
        code = (
            f"import sys; sys.path.insert(0, {str(installed)!r})\n"
            f"import {NAME}, {NAME}.cli\n"
            f"print({NAME}.__file__, {NAME}.__version__, sep='\\n')\n"
            f"sys.exit({NAME}.cli.main(['--help']))"
        )
        run = subprocess.run(
            [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert run.returncode == 0, run.stderr
        file, version, *help_text = run.stdout.splitlines()
        assert Path(file) == installed / NAME / "__init__.py"
        assert (installed / f"{NAME}-{version}.dist-info").is_dir()
        assert any(line.split()[:1] == ["augment"] for line in help_text)

    def test_is_small(self, wheel: Path) -> None:
        """The limits and the rounded sizes are those of docs/decisions/wheel-size.md."""
        parts = script("build_wheels").parts_of(wheel)
        assert sum(parts.values()) == wheel.stat().st_size
        limits = 1_390_000, 1_510_000
        assert parts["other files"] < limits[0]
        assert parts["other files"] + parts["names and hashes"] < limits[1]
        page = (ROOT / "docs" / "decisions" / "wheel-size.md").read_text(encoding="utf-8")
        assert all(f"{limit:,} bytes" in page for limit in limits)
        for part in ("other files", "names and hashes"):  # the native core depends on the compiler, see test_wheels.py
            (megabytes,) = re.findall(rf"^\| {part}.* \| ([\d.]+) \|$", page, re.MULTILINE)
            assert 1e6 * float(megabytes) == pytest.approx(parts[part], rel=0.05)

    def test_has_what_bench_runs(self, installed: Path, tmp_path: Path) -> None:
        code = f"import sys; sys.path.insert(0, {str(installed)!r}); import {NAME}._benchmarks.suite"
        subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True, timeout=100)

    def test_readme_of_the_metadata_renders(self, wheel: Path) -> None:
        archive = zipfile.ZipFile(wheel)
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        description = archive.read(name).decode().partition("\n\n")[2]
        assert description.startswith(f"# {NAME}\n")
        assert rendered(description)

    def test_has_the_command(self, installed: Path) -> None:
        assert (installed / "bin" / NAME).is_file()
