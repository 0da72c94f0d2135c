"""What is checked, by name: `nox -l` lists it, `nox` runs the usual part of it."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True  # a Python that is not there is said, not skipped
nox.options.download_python = "never"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint", "types", "imports", "examples", "docs"]

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15", "3.14t", "3.15t"]  # with a t: without the GIL
EXTRAS = ".[cli,fastapi,prometheus,compact,testing]"
pyproject = nox.project.load_toml("pyproject.toml")


# Interpreters are looked for on the PATH, in pyenv, and among what tests/support/interpreters.sh has made. pyenv's
# shims are left out: there is one for each version, and only that of the chosen version works.
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
INTERPRETERS = [
    *(folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder) != PYENV / "shims"),
    *map(str, sorted(PYENV.glob("versions/*/bin"))),
    str(Path(os.environ.get("KINFORMER_INTERPRETERS") or CACHES / "kinformer" / "interpreters") / "bin"),
]
os.environ["PATH"] = os.pathsep.join(INTERPRETERS)
NEWEST = [python for python in PYTHONS if not python.endswith("t") and shutil.which(f"python{python}")][-1:]


def install(session: nox.Session, *groups: str) -> None:
    session.install("-q", "-e", EXTRAS, *nox.project.dependency_groups(pyproject, *groups))


@nox.session
def quick(session: nox.Session) -> None:
    """The quick tests, between two edits: six to nine minutes on two cores, in an environment of 170 MB."""
    session.install("-q", "-e", ".[cli,fastapi,testing]", *nox.project.dependency_groups(pyproject, "quick"))
    session.run("python", "-m", "pytest", "-n", "auto", "-m", "quick", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The test suite, on every Python that is supported; tests/support/interpreters.sh makes those that are missing."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """The test suite on the oldest Python, with the lower bound of each dependency and extra (docs/support.md)."""
    resolve(session, "lowest-direct")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)
    # The project's own tests need a newer pytest than its plugin does.
    alone = Path(session.create_tmp()).resolve()
    shutil.rmtree(alone)
    alone.mkdir()
    shutil.copy("tests/packaging/test_users_plugin.py", alone)
    (alone / "pytest.ini").touch()  # otherwise pytest takes the project's settings, which need a newer one
    python = str(alone / "venv" / "bin" / "python")
    session.run("uv", "venv", "--quiet", "--python", str(Path(session.bin) / "python"), str(alone / "venv"))
    install = ("uv", "pip", "install", "--quiet", "--python", python, "--resolution", "lowest-direct")
    session.run(*install, ".[testing]")
    session.run(python, "-m", "pytest", "-W", "error", str(alone), external=True)


@nox.session(python=NEWEST)
def newest(session: nox.Session) -> None:
    """The test suite on the newest Python that this machine has, with the newest release of each dependency."""
    resolve(session, "highest")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


def resolve(session: nox.Session, resolution: str) -> None:
    """Install every extra and the tools of the tests as uv resolves them, whatever a former run has left."""
    session.install("-q", "uv")
    extras = ",".join(pyproject["project"]["optional-dependencies"])
    command = ["uv", "pip", "install", "--quiet", "--upgrade", "--resolution", resolution]
    session.run(*command, "-e", f".[{extras}]", "--group", "test")
    session.run("uv", "pip", "list", "--quiet")


@nox.session
def searches(session: nox.Session) -> None:
    """The tests that search: hundreds of histories, schedules and rounds, 15 minutes on two cores. Not a part of CI."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-n", "auto", "-m", "search", *session.posargs)


@nox.session(name="tests-of")
def tests_of(session: nox.Session) -> None:
    """The tests that cover a file: `nox -s tests-of -- kinformer/cache/store.py`; more files, and pytest's options."""
    files = [argument for argument in session.posargs if Path(argument).suffix in {".py", ".pyi"}]
    options = [argument for argument in session.posargs if argument not in files]
    install(session, "test")
    listed = session.run("python", "tools/tests_of.py", *files, silent=True)
    session.run("python", "-m", "pytest", "-n", "auto", *str(listed).split(), *options)


@nox.session
def pulled(session: nox.Session) -> None:
    """The quick tests with an aiohttp that lacks what pushing events needs, so that tasks read all watches."""
    install(session, "test")
    about_pushing = ("tests/client/test_aiohttp_internals.py", "tests/informer/test_watch_path.py")
    left_out = [f"--ignore={path}" for path in about_pushing]
    session.run("python", "-m", "pytest", "-n", "auto", "--pulled", "-m", "quick", *left_out, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    session.install("-q", *nox.project.dependency_groups(pyproject, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy and pyright, both strict about what is public."""
    install(session, "test", "types")
    session.run("mypy")
    session.run("pyright")


@nox.session
def imports(session: nox.Session) -> None:
    """import-linter: imports only ever point downstairs."""
    install(session, "lint")
    session.run("lint-imports")


@nox.session
def examples(session: nox.Session) -> None:
    """Every program in examples/, against the embedded API server."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-n", "auto", "tests/examples", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The site, built strictly into site/. The tests in tests/docs run the code on its pages."""
    install(session, "docs")
    session.run("mkdocs", "build", "--strict", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def package(session: nox.Session) -> None:
    """The wheel, the sdist and the SBOM, into dist/ (RELEASING.md): what is in them, and both in empty environments."""
    install(session, "test", "package")
    committed = session.run("git", "log", "-1", "--format=%ct", external=True, silent=True)
    env = {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or str(committed).strip()}
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "dist", env=env)
    (wheel,), (sdist,) = (list(Path("dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    session.run("python", "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    session.run("python", "tools/sbom.py", str(wheel), env=env)
    session.run("python", "-m", "pytest", "tests/packaging", "--distributions", "dist", *session.posargs, env=env)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The figures: ratios against a reference taken in the same run.

    `nox -s benchmarks -- --write` measures all that docs/results.md has, other clients too, in an hour, and writes the
    page and its pictures; `-- --write peers` writes one section. A section that needs what is not here (Go, Rust, root)
    stays as it is.
    """
    writes = "--write" in session.posargs
    install(session, "test", "bench", *(["peers", "plots"] if writes else []))
    session.run("python", "-m", "benchmarks", *session.posargs, success_codes=[0, 1] if writes else [0])
    if writes:
        session.run("python", "-m", "benchmarks.plots")


@nox.session
def conformance(session: nox.Session) -> None:
    """The suite of both servers on a real kube-apiserver; builds it when it is not there (needs Go).

    `nox -s conformance -- --kubernetes 1.33` runs it on another minor. What else follows `--` is for pytest.
    """
    if not os.environ.get("KUBEBUILDER_ASSETS") and not shutil.which("go"):
        session.error(
            "a real kube-apiserver is built with Go, and there is no `go` on the PATH; "
            "or point KUBEBUILDER_ASSETS at a folder with the binaries etcd and kube-apiserver"
        )
    install(session, "test")
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--kubernetes")
    version = options.parse_known_args(session.posargs)[0].kubernetes
    session.run("python", "tests/conformance/build_assets.py", *(["--kubernetes", version] if version else []))
    # The embedded server's share of it runs in the session `tests`. Each worker has a control plane, and mostly waits
    # for it: three take five minutes on two processors, one takes twelve.
    arguments = ["--conformance", "tests/conformance", "-k", "not embedded", "-n", "3", "--dist", "loadfile"]
    session.run("python", "-m", "pytest", *arguments, *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Kubernetes' own e2e tests on both servers, and the difference; builds what is missing (needs Go), 40 minutes."""
    if not shutil.which("go"):
        session.error("Kubernetes' e2e tests are built with Go, and there is no `go` on the PATH")
    install(session, "test")
    session.run("python", "-m", "tests.conformance.e2e", *session.posargs)
