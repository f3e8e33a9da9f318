"""The official JSON-Schema-Test-Suite, Draft 2020-12, out of the source package of PyPI's `jsonschema`.

It is downloaded once into the user's cache, never committed. Run as a program this file records what the
grammars make of it: `python tests/python/schema_suite.py`, after a change that makes more of it.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from schema_tools import SchemaMatcher

from mlx_sampling.errors import JsonSchemaError

PIN = "4.25.1"
RATCHET = Path(__file__).parents[1] / "data" / "json_schema_suite.json"


def suite_folder():
    """Where the cases are.

    Raises:
        OSError: They are not there, and cannot be downloaded.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlx-sampling"
    folder = cache / f"jsonschema-{PIN}" / "draft2020-12"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            _download(Path(temporary))
            try:
                (Path(temporary) / f"jsonschema-{PIN}/json/tests/draft2020-12").rename(folder)
            except OSError:  # another run was first
                if not folder.is_dir():
                    raise
    return folder


def _download(folder):
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps"]
    done = subprocess.run(
        [*command, "-d", str(folder), f"jsonschema=={PIN}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    archives = list(folder.glob("*.tar.gz"))
    if done.returncode or not archives:
        raise OSError(f"jsonschema=={PIN} cannot be downloaded: {done.stderr.strip()[-300:]}")
    with tarfile.open(archives[0]) as archive:
        for member in archive.getmembers():
            if (
                "/json/tests/draft2020-12/" in member.name
                and member.isfile()
                and ".." not in member.name
            ):
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(member).read())


def read_cases(folder):
    """File and description -> case."""
    cases = {}
    for path in sorted(folder.rglob("*.json")):
        for number, case in enumerate(json.loads(path.read_text())):
            name = f"{path.relative_to(folder).as_posix()[:-5]} {number} {case['description']}"
            cases[name] = case
    return cases


def measure(case):
    """What a case comes to: "refused" or how many instances are taken; the error; the unsound ones."""
    try:
        matcher = SchemaMatcher(case["schema"])
    except JsonSchemaError as error:
        return "refused", error, []
    reached, unsound = 0, []
    for test in case["tests"]:
        try:
            taken = matcher.reaches(test["data"])
        except UnicodeEncodeError:  # a lone surrogate, which is in no text
            continue
        reached += taken
        if taken and not test["valid"]:
            unsound.append(test)
    return reached, None, unsound


def valid_count(case):
    return sum(test["valid"] for test in case["tests"])


def record():
    cases = read_cases(suite_folder())
    results = {name: measure(case)[0] for name, case in cases.items()}
    RATCHET.write_text(json.dumps({"jsonschema": PIN, "cases": results}, indent=0) + "\n")
    print(summary(cases, results))


def summary(cases, results):
    enforced = {name: r for name, r in results.items() if r != "refused"}
    valid = sum(valid_count(cases[name]) for name in enforced)
    return (
        f"JSON Schema suite: {len(enforced)} of {len(results)} schemas enforced, the others refused with a "
        f"pointer; of the enforced ones {sum(enforced.values())} of {valid} valid instances reached"
    )


if __name__ == "__main__":
    record()
