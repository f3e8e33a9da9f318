"""The official suite as a ratchet: nothing invalid is ever taken, no case comes to less than before."""

import json
import os
import subprocess

import pytest
from schema_suite import PIN, RATCHET, measure, read_cases, suite_folder, summary

pytestmark = pytest.mark.slow

RECORD = "record it with `python tests/python/schema_suite.py`"


@pytest.fixture(scope="module")
def cases():
    try:
        return read_cases(suite_folder())
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("MLX_SAMPLING_REQUIRE_SUITE") == "1":
            raise
        pytest.skip(f"no JSON-Schema-Test-Suite: {error}")


@pytest.fixture(scope="module")
def results(cases):
    return {name: measure(case) for name, case in cases.items()}


@pytest.fixture(scope="module")
def ratchet():
    recorded = json.loads(RATCHET.read_text())
    assert recorded["jsonschema"] == PIN
    return recorded["cases"]


def test_no_invalid_instance_is_taken(results):
    unsound = {name: tests for name, (_, _, tests) in results.items() if tests}
    assert unsound == {}


def test_what_is_taken_validates(cases, results):
    """By the validator as well as by the suite; it is no judge of what the suite calls optional."""
    jsonschema = pytest.importorskip("jsonschema")
    from schema_tools import SchemaMatcher

    checked = 0
    for name, case in cases.items():
        if results[name][0] == "refused" or name.startswith("optional/"):
            continue
        validator = jsonschema.Draft202012Validator(case["schema"])
        matcher = SchemaMatcher(case["schema"])
        for test in case["tests"]:
            if matcher.reaches(test["data"]):
                checked += 1
                assert validator.is_valid(test["data"]), (name, test)
    assert checked > 600


def test_every_schema_is_enforced_or_refused_with_a_pointer(results):
    for name, (outcome, error, _) in results.items():
        if outcome == "refused":
            assert str(error).startswith("#"), name
            assert error.pointer == str(error).split(": ")[0], name


def test_ratchet(cases, results, ratchet, capsys):
    found = {name: outcome for name, (outcome, _, _) in results.items()}
    with capsys.disabled():
        print("\n" + summary(cases, found))
    assert found.keys() == ratchet.keys()
    value = {name: -1 if o == "refused" else o for name, o in found.items()}
    before = {name: -1 if o == "refused" else o for name, o in ratchet.items()}
    worse = {name: (ratchet[name], found[name]) for name in found if value[name] < before[name]}
    assert worse == {}, "less than before"
    better = [name for name in found if value[name] > before[name]]
    assert better == [], f"more than before: {RECORD}"


def test_refusals_are_not_bugs(results, ratchet):
    """Half of the refused schemas name something outside the document, or take nothing."""
    reasons = [str(error) for outcome, error, _ in results.values() if outcome == "refused"]
    inherent = [
        r for r in reasons if "only what is inside the document" in r or "no value is valid" in r
    ]
    assert len(inherent) * 2 >= len(reasons)
    assert len(reasons) * 6 < len(results)
