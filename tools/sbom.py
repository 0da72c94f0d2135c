"""The SBOM of a wheel in CycloneDX: the packages of an installation with every extra, made by `cyclonedx-py`.

    python tools/sbom.py dist/kinformer-0.1.0-py3-none-any.whl    # writes dist/kinformer-0.1.0.cdx.json

The wheel is installed into an empty virtual environment, so the components are those that a package index gives at
this time; the package itself contains no code of others. The project's version is in the package, not in its
pyproject.toml, and the tool reads the latter: it gets a copy with the version in it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DYNAMIC = re.compile(r"^dynamic = .*$", re.MULTILINE)


def write_sbom(wheel: Path, pyproject: str) -> Path:
    """Write the SBOM beside a wheel and return its path.

    Args:
        wheel: The wheel.
        pyproject: The text of the pyproject.toml that it was built with.
    """
    about = metadata(wheel)
    static, replaced = DYNAMIC.subn(f'version = "{about["Version"]}"', pyproject)
    if replaced != 1:
        raise ValueError(f"pyproject.toml: expected one line that begins with 'dynamic = ', got {replaced}")
    target = wheel.with_name(f"{about['Name']}-{about['Version']}.cdx.json")
    with tempfile.TemporaryDirectory(prefix="kinformer-sbom-") as folder:
        described = Path(folder) / "pyproject.toml"
        described.write_text(static, encoding="utf-8")
        environment = Path(folder) / "venv"
        venv.create(environment, with_pip=False, symlinks=True)
        extras = ",".join(about.get_all("Provides-Extra", []))
        pip = [sys.executable, "-m", "pip", "--python", str(environment)]
        subprocess.run([*pip, "install", "--quiet", f"{wheel.resolve()}[{extras}]"], check=True)
        # Reproducible: no serial number, and the time is that of SOURCE_DATE_EPOCH or left out.
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(described)]
        command += ["--mc-type", "library", "--output-reproducible", "--of", "JSON", "-o", str(target)]
        subprocess.run([*command, str(environment)], check=True)
    return target


def metadata(wheel: Path) -> Message:
    """Return the METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the SBOM of a wheel beside it.")
    parser.add_argument("wheel", type=Path)
    target = write_sbom(parser.parse_args().wheel, (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
