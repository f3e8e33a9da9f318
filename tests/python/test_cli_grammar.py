"""`mlx-sampling grammar`, and answers under a grammar."""

import json
import subprocess
import sys

import pytest

from mlx_sampling.cli import main

GRAMMAR = 'root ::= greeting ", " [a-z]+ "!"\ngreeting ::= "hello" | "good\\nday"\n'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "greeting.gbnf"
    path.write_text(GRAMMAR)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello, world!", "matches"),
        ("hello, World!", "1:8: the grammar does not allow 'W' after 'hello, '"),
        ("good\nday. you", "2:4: the grammar does not allow '.' after 'good\\nday'"),
        ("", "1:1: the text ends, but the grammar goes on after the beginning"),
        ("hello, you", "1:11: the text ends, but the grammar goes on after 'hello, you'"),
        ("hello, " + "a" * 60 + "?", "1:68: the grammar does not allow '?' after ...'aaaa"),
    ],
)
def test_where_a_text_leaves_the_grammar(file, text, said, capsys):
    assert main(["grammar", "check", str(file), "--text", text]) == (said != "matches")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}: a grammar"
    assert lines[1].startswith(f"--text: {said}")


def test_a_text_file_and_a_schema(tmp_path, capsys):
    schema, text = tmp_path / "schema.json", tmp_path / "text.json"
    schema.write_text(
        '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    )
    text.write_text('{"a":12}')
    command = ["grammar", "check", "--json-schema", str(schema), "--text-file", str(text)]
    assert main(command) == 0
    assert f"{text}: matches" in capsys.readouterr().out
    text.write_text('{"a":1.5}')
    assert main(command) == 1
    assert f"{text}: 1:7: the grammar does not allow '.'" in capsys.readouterr().out


def test_a_schema_as_a_grammar(tmp_path, capsys):
    schema, grammar = tmp_path / "schema.json", tmp_path / "schema.gbnf"
    schema.write_text('{"enum": ["a", 1]}')
    assert main(["grammar", "from-json-schema", str(schema)]) == 0
    grammar.write_text(capsys.readouterr().out)
    assert main(["grammar", "check", str(grammar), "--text", '"a"', "--text", "1"]) == 0
    assert main(["grammar", "check", str(grammar), "--text", '"b"']) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'root ::= "a', r"1:"),
        (b"root ::= item", '1:10: rule "item" is not defined'),
        (b'top ::= "a"', "root"),
        (b'root ::= "\xff"', ""),
    ],
)
def test_a_file_that_is_no_grammar(tmp_path, content, said, capsys):
    path = tmp_path / "bad.gbnf"
    path.write_bytes(content)
    assert main(["grammar", "check", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mlx-sampling: {path}: ")
    assert said in error
    assert "Traceback" not in error


def test_a_schema_that_cannot_be_enforced(tmp_path, capsys):
    path = tmp_path / "schema.json"
    path.write_text('{"properties": {"a": {"type": "strin"}}}')
    for command in (["from-json-schema"], ["check", "--json-schema"]):
        assert main(["grammar", *command, str(path)]) == 1
        assert capsys.readouterr().err.startswith(f"mlx-sampling: {path}: #/properties/a")
    path.write_bytes(b"\xff")
    assert main(["grammar", "from-json-schema", str(path)]) == 1
    assert "Expected UTF-8, got a bad byte at 0" in capsys.readouterr().err


def generate(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "mlx_sampling", "generate", "Say hello.", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_answers_match(packaged, file, tmp_path):
    greedy = generate("--grammar", str(file), "--max-tokens", "40")
    assert greedy["route"] == "B"
    assert "under a grammar" in greedy["route_reason"]
    assert main(["grammar", "check", str(file), "--text", greedy["text"]]) == 0
    assert greedy["finish_reason"] == "stop"
    drawn = generate("--grammar", str(file), "--temp", "1", "--seed", "3", "--max-tokens", "40")
    assert drawn["route"] == "A"
    assert main(["grammar", "check", str(file), "--text", drawn["text"]]) == 0
    cut = generate("--grammar", str(file), "--max-tokens", "1")
    assert cut["finish_reason"] == "length, before the grammar was complete"
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], '
        '"additionalProperties": false}'
    )
    answer = generate("--json-schema", str(schema), "--max-tokens", "40")
    assert isinstance(json.loads(answer["text"])["ok"], bool)


def test_bad_options(tmp_path, capsys):
    assert main(["generate", "x", "--grammar-first"]) == 1
    assert "[grammar_first] Expected a grammar" in capsys.readouterr().err
    assert main(["generate", "x", "--grammar", str(tmp_path / "none.gbnf")]) == 1
    assert "none.gbnf" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["generate", "x", "--json-object", "--grammar", "y"])


def test_a_bad_grammar_is_named(packaged, tmp_path, capsys):
    bad = tmp_path / "bad.gbnf"
    bad.write_text("root ::= (")
    assert main(["generate", "x", "--grammar", str(bad)]) == 1
    assert "bad.gbnf: 1:" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--grammar", "--json-schema"])
def test_an_empty_name_is_no_missing_option(option, capsys):
    """As of a shell's unset variable: the answer must not be one without a grammar."""
    assert main(["generate", "x", option, "", "--max-tokens", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "directory" in captured.err


def test_a_text_that_is_none(file, capsys):
    assert main(["grammar", "check", str(file), "--text", "hello\udcff"]) == 1
    assert "[text] Expected text in Unicode, got a lone surrogate" in capsys.readouterr().err
