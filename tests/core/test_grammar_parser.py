"""GBNF to syntax: what is read as what, and what is refused where."""

from __future__ import annotations

import pickle

import pytest

from mlx_sampling._ext import Vocabulary, parse_grammar
from mlx_sampling.errors import GrammarError

VOCABULARY = Vocabulary([b"a", b"<b>", b"<|end|>", b"<\xc3\xa9>"], control=[1], ends=[2])


def body(text: str | bytes, **options):
    """The tree of the first rule."""
    return parse_grammar(text, **options).trees()[0][1]


def char(*characters: str | tuple[int, int]):
    ranges = [c if isinstance(c, tuple) else (ord(c), ord(c)) for c in characters]
    return ("chars", ranges)


def sequence(*parts):
    return ("sequence", list(parts))


def choice(*parts):
    return ("choice", list(parts))


ALL = [(0, 0xD7FF), (0xE000, 0x10FFFF)]
EMPTY = sequence()
AB = sequence(char("a"), char("b"))

READ = {
    # Literals, and what may stand in them.
    '"a"': char("a"),
    '"ab"': AB,
    '"a" "b"': AB,
    '"a""b"': AB,
    '"a"\t"b"  ': AB,
    '"a" "b" # "c"': AB,
    '""': EMPTY,
    '"a" "" "b"': AB,
    '"a\nb"': sequence(char("a"), char("\n"), char("b")),
    '"#"': char("#"),
    r'"\t\r\n"': sequence(char("\t"), char("\r"), char("\n")),
    r'"\\\"\[\]\-"': sequence(*map(char, '\\"[]-')),
    r'"\xE9"': char("é"),
    r'"\xe9a"': sequence(char("é"), char("a")),
    r'"\u20ACf"': sequence(char("€"), char("f")),
    r'"\U0001f600"': char("😀"),
    r'"\x00"': char("\0"),
    r'"\U0010FFFF"': char("\U0010ffff"),
    '"é😀"': sequence(char("é"), char("😀")),
    # Classes.
    "[a]": char("a"),
    "[ba]": char((97, 98)),
    "[ca]": char("a", "c"),
    "[a-cb-e]": char((97, 101)),
    "[a-b-d]": char("-", (97, 98), "d"),
    "[a-]": char("-", "a"),
    "[-a]": char("-", "a"),
    "[--a]": char((45, 97)),
    "[-]": char("-"),
    r"[a\-c]": char("-", "a", "c"),
    r"[\]-a]": char((93, 97)),
    r"[\x41-\x43]": char((65, 67)),
    "[a^]": char("^", "a"),
    '["]': char('"'),
    "[[]": char("["),
    "[z-a]": char(),
    "[^z-a]": char(*ALL),
    "[^a]": char((0, 96), (98, 0xD7FF), ALL[1]),
    "[^^]": char((0, 93), (95, 0xD7FF), ALL[1]),
    r"[^\x00-\U0010FFFF]": char(),
    r"[\x00-\uFFFF]": char(ALL[0], (0xE000, 0xFFFF)),
    r"[\uD800-\uDFFF]": char(),
    r"[^\uD800-\uDFFF]": char(*ALL),
    r"[\uD7FF-\uE000]": char((0xD7FF, 0xD7FF), (0xE000, 0xE000)),
    ".": char(*ALL),
    "[]": EMPTY,
    "[^]": EMPTY,
    '"a" [] "b"': AB,
    # Groups and choices.
    "()": EMPTY,
    '("a")': char("a"),
    '("a" "b")': AB,
    '("a") ("b")': AB,
    '(((("a")) "b"))': AB,
    '"a" | "b"': choice(char("a"), char("b")),
    '"a"|"b"|': choice(char("a"), char("b"), EMPTY),
    "|": choice(EMPTY, EMPTY),
    '("a" | "b")': choice(char("a"), char("b")),
    '"a" ("b" | )': sequence(char("a"), choice(char("b"), EMPTY)),
    '"a" | ("b" | "c")': choice(char("a"), choice(char("b"), char("c"))),
    '"a" |\n\n # or\n "b"': choice(char("a"), char("b")),
    '(\n"a"\n"b"\n# c\n)': AB,
    '("a"\n|\n"b")': choice(char("a"), char("b")),
    '("a"\n*)': ("repeat", char("a"), 0, None),
    # Repetitions: of the whole literal before them, one upon the other.
    '"a"*': ("repeat", char("a"), 0, None),
    '"a"  *': ("repeat", char("a"), 0, None),
    '"a"+': ("repeat", char("a"), 1, None),
    '"a"?': ("repeat", char("a"), 0, 1),
    '"a"{2}': ("repeat", char("a"), 2, 2),
    '"a"{2,}': ("repeat", char("a"), 2, None),
    '"a"{2,3}': ("repeat", char("a"), 2, 3),
    '"a"{ 2 , 3 }': ("repeat", char("a"), 2, 3),
    '("a"{\n2\n,\n3\n})': ("repeat", char("a"), 2, 3),
    '"a"{0,3}': ("repeat", char("a"), 0, 3),
    '"a"{007}': ("repeat", char("a"), 7, 7),
    '"a"{0,2000}': ("repeat", char("a"), 0, 2000),
    '"a"{2001,5000}': ("repeat", char("a"), 2001, 5000),
    '"a"{2147483647}': ("repeat", char("a"), 2**31 - 1, 2**31 - 1),
    '"ab"*': ("repeat", AB, 0, None),
    '"a" "b"*': sequence(char("a"), ("repeat", char("b"), 0, None)),
    '("a" "b")*': ("repeat", AB, 0, None),
    '"a"{2}{3}': ("repeat", ("repeat", char("a"), 2, 2), 3, 3),
    '"a"?*': ("repeat", ("repeat", char("a"), 0, 1), 0, None),
    '"ab"{1}{1,1}': AB,
    '"b" "a"{0}': char("b"),
    '"b" "a"{0,0} "c"': sequence(char("b"), char("c")),
    "()*": ("repeat", EMPTY, 0, None),
    '("" "")?': ("repeat", EMPTY, 0, 1),
    "root*": ("repeat", ("rule", "root"), 0, None),
    ".*": ("repeat", char(*ALL), 0, None),
    "[]\t": EMPTY,
    # References, left recursion too.
    "root": ("rule", "root"),
    'root "a" | ': choice(sequence(("rule", "root"), char("a")), EMPTY),
    "root root": sequence(("rule", "root"), ("rule", "root")),
    'root"a"root': sequence(("rule", "root"), char("a"), ("rule", "root")),
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text):
    assert body("root ::= " + text) == READ[text]
    assert body(f"\n# c\n\troot\t::=\n  {text}") == READ[text]
    if not text.rstrip().endswith("|"):  # which would go on in the next line
        assert body(f"root::={text}\r\n\r\nx ::= [a]\n") == READ[text]


TOKENS = {
    "<[0]>": ("tokens", [0]),
    "<[3]>": ("tokens", [3]),
    "<[0003]>": ("tokens", [3]),
    "!<[2]>": ("no_tokens", [2]),
    "<b>": ("tokens", [1]),
    "!<b>": ("no_tokens", [1]),
    "<|end|>": ("tokens", [2]),
    "<é>": ("tokens", [3]),
    "<b>*": ("repeat", ("tokens", [1]), 0, None),
    '"a"<b>"b"': sequence(char("a"), ("tokens", [1]), char("b")),
    "(<b>\n!<[1]>)": sequence(("tokens", [1]), ("no_tokens", [1])),
}


@pytest.mark.parametrize("text", TOKENS)
def test_tokens(text):
    assert body("root ::= " + text, vocabulary=VOCABULARY) == TOKENS[text]


def test_rules_keep_their_order_and_places():
    syntax = parse_grammar(
        "# é\n  42 ::= - -\r\n\r- ::= é0 | root\nroot ::= 42\n".replace("é0", '"é"')
    )
    assert syntax.rules == [("42", 2, 3), ("-", 4, 1), ("root", 5, 1)]
    assert syntax.root == "root"
    assert parse_grammar("a ::= b\nb ::= a", root="b").root == "b"


REFUSED = {
    # text: (place, message)
    "": ("1:1", 'rule "root" is not defined'),
    " \n # nothing\n": ("1:1", 'rule "root" is not defined'),
    'Root ::= "a"': ("1:1", 'rule "root" is not defined'),
    "root ::= item": ("1:10", 'rule "item" is not defined'),
    'root ::= "é" item\na ::= b': ("1:14", 'rule "item" is not defined'),
    'root ::= "a"\nunused ::= missing': ("2:12", 'rule "missing" is not defined'),
    'root ::= "a"\nroot ::= "b"': ("2:1", 'rule "root" is defined already, at 1:1'),
    'a ::= "a"\n b ::= a\n a ::= b': ("3:2", 'rule "a" is defined already, at 1:1'),
    "root": ("1:5", 'expected "::=" after "root", got the end'),
    "root =": ("1:6", 'expected "::=" after "root", got "="'),
    "root : := x": ("1:6", 'expected "::=" after "root", got ": := x"'),
    'root\n::= "a"': ("1:5", 'expected "::=" after "root", got a line break'),
    'root # c\n::= "a"': ("1:9", 'expected "::=" after "root", got a line break'),
    "root_2 ::= x": ("1:5", 'expected "::=" after "root", got "_2 ::= x"'),
    "é ::= x": ("1:1", "expected a rule's name, got \"é ::= x\""),
    "::= x": ("1:1", "expected a rule's name, got \"::= x\""),
    '"a"': ("1:1", "expected a rule's name, got \"\"a\"\""),
    "\ufeffroot ::= x": ("1:1", "expected a rule's name, got \"\ufeffroot ::= x\""),
    # What ends a rule. A line break does, but for those after `::=` and `|`, and in groups.
    "root ::= 'a'": ("1:10", 'expected a symbol, "|" or a line break, got "\'a\'"'),
    "root ::= x_y": ("1:11", 'expected a symbol, "|" or a line break, got "_y"'),
    'root ::= "a")': ("1:13", 'expected a symbol, "|" or a line break, got ")"'),
    'root ::= "a"]': ("1:13", 'expected a symbol, "|" or a line break, got "]"'),
    "root ::= []a]": ("1:13", 'expected a symbol, "|" or a line break, got "]"'),
    'root ::= "a" }': ("1:14", 'expected a symbol, "|" or a line break, got "}"'),
    'root ::= "a"\n | "b"': ("2:2", "expected a rule's name, got \"| \"b\"\""),
    'root ::= "a"\n  "b"': ("2:3", "expected a rule's name, got \"\"b\"\""),
    'root ::= "a"\n*': ("2:1", "expected a rule's name, got \"*\""),
    'root ::= a b ::= "c"': ("1:14", 'expected a symbol, "|" or a line break, got "::= "c""'),
    'root ::=\na ::= "c"': ("2:3", 'expected a symbol, "|" or a line break, got "::= "c""'),
    'root ::= "b" |\na ::= "c"': ("2:3", 'expected a symbol, "|" or a line break, got "::= "c""'),
    'root ::= "a" \x0c': ("1:14", 'expected a symbol, "|" or a line break, got "\\x0C"'),
    "root ::= \u00a0": ("1:10", 'expected a symbol, "|" or a line break, got "\u00a0"'),
    "root ::= " + "é" * 30: (
        "1:10",
        f'expected a symbol, "|" or a line break, got "{"é" * 24}..."',
    ),
    # Literals, classes, escapes.
    'root ::= "a': ("1:10", 'the literal that begins here is not closed: ""a"'),
    'root ::= "a\n\nb': ("1:10", 'the literal that begins here is not closed: ""a"'),
    'root ::= "': ("1:10", 'the literal that begins here is not closed: """'),
    "root ::= [a": ("1:10", 'the class that begins here is not closed: "[a"'),
    "root ::= [a-": ("1:10", 'the class that begins here is not closed: "[a-"'),
    "root ::= [^": ("1:10", 'the class that begins here is not closed: "[^"'),
    r"root ::= [a\]": ("1:10", r'the class that begins here is not closed: "[a\]"'),
    r'root ::= "\d{4}"': ("1:11", r'unknown escape "\d{4}""'),
    r'root ::= "\S"': ("1:11", r'unknown escape "\S""'),
    r"root ::= [\^]": ("1:11", r'unknown escape "\^]"'),
    r"root ::= [a-\w]": ("1:13", r'unknown escape "\w]"'),
    'root ::= "\\\n"': ("1:11", r'unknown escape "\"'),
    'root ::= "\\': ("1:11", r'unknown escape "\"'),
    r'root ::= "\x4"': ("1:11", r'expected 2 hexadecimal digits after \x, got "4""'),
    r'root ::= "\u00g0"': ("1:11", r'expected 4 hexadecimal digits after \u, got "00g0""'),
    r'root ::= "\U0001F60"': ("1:11", r'expected 8 hexadecimal digits after \U, got "0001F60""'),
    r'root ::= "\u{41}"': ("1:11", r'expected 4 hexadecimal digits after \u, got "{41}""'),
    'root ::= "\\x': ("1:11", r"expected 2 hexadecimal digits after \x, got the end"),
    r'root ::= "\U00110000"': (
        "1:11",
        r'expected a code point up to U+10FFFF, got "\U00110000""',
    ),
    r"root ::= [a-\UFFFFFFFF]": (
        "1:13",
        r'expected a code point up to U+10FFFF, got "\UFFFFFFFF]"',
    ),
    r'root ::= "\uD83D\uDE00"': (
        "1:11",
        r"expected a character, got half a surrogate pair (as one: \UHHHHHHHH): "
        r'"\uD83D\uDE00""',
    ),
    r"root ::= [a\uDFFF]": (
        "1:12",
        r'expected a character, got half a surrogate pair (as one: \UHHHHHHHH): "\uDFFF]"',
    ),
    # Groups.
    'root ::= ("a"': (
        "1:14",
        'expected a symbol, "|" or the ")" of the group at 1:10, got the end',
    ),
    'root ::= ("a"\n ("b" ]': (
        "2:7",
        'expected a symbol, "|" or the ")" of the group at 2:2, got "]"',
    ),
    # Repetitions.
    "root ::= *": ("1:10", 'expected something to repeat before "*"'),
    "root ::= +": ("1:10", 'expected something to repeat before "+"'),
    "root ::= ?": ("1:10", 'expected something to repeat before "?"'),
    'root ::= {2} "a"': ("1:10", 'expected something to repeat before "{2} "a""'),
    'root ::= ""*': ("1:12", 'expected something to repeat before "*"'),
    'root ::= "a" "" *': ("1:17", 'expected something to repeat before "*"'),
    "root ::= []+": ("1:12", 'expected something to repeat before "+"'),
    "root ::= [^]?": ("1:13", 'expected something to repeat before "?"'),
    'root ::= "a" | *': ("1:16", 'expected something to repeat before "*"'),
    'root ::= ("a" | *)': ("1:17", 'expected something to repeat before "*)"'),
    "root ::= (*)": ("1:11", 'expected something to repeat before "*)"'),
    'root ::= "a"{0}*': ("1:16", 'expected something to repeat before "*"'),
    'root ::= "b" "a"{0,0}{2}': ("1:22", 'expected something to repeat before "{2}"'),
    'root ::= "a"{}': ("1:14", 'expected a count after "{", got "}"'),
    'root ::= "a"{,3}': ("1:14", 'expected a count after "{", got ",3}"'),
    'root ::= "a"{-1}': ("1:14", 'expected a count after "{", got "-1}"'),
    'root ::= "a"{\n2}': ("1:14", 'expected a count after "{", got a line break'),
    'root ::= "a"{2': ("1:15", 'expected "," or "}" after the count, got the end'),
    'root ::= "a"{2;3}': ("1:15", 'expected "," or "}" after the count, got ";3}"'),
    'root ::= "a"{2\n}': ("1:15", 'expected "," or "}" after the count, got a line break'),
    'root ::= "a"{2,x}': ("1:16", 'expected a count or "}", got "x}"'),
    'root ::= "a"{2,3': ("1:17", 'expected a count or "}", got the end'),
    'root ::= "a"{3,1}': ("1:16", "expected a maximum of at least 3, got 1"),
    'root ::= "é"{5,0}': ("1:16", "expected a maximum of at least 5, got 0"),
    'root ::= "a"{2147483648}': (
        "1:14",
        'expected a count of at most 2147483647, got "2147483648}"',
    ),
    'root ::= "a"{1,4294967295}': (
        "1:16",
        'expected a count of at most 2147483647, got "4294967295}"',
    ),
    'root ::= "a"{99999999999999999999}': (
        "1:14",
        'expected a count of at most 2147483647, got "99999999999999999999}"',
    ),
    # Tokens.
    'root ::= "a" <b>': ("1:14", 'tokens need a vocabulary: "<b>"'),
    "root ::= !<[0]>": ("1:10", 'tokens need a vocabulary: "!<[0]>"'),
    'root ::= !"a"': ("1:11", 'expected a token in "<" and ">" after "!", got ""a""'),
    "root ::= ! <b>": ("1:11", 'expected a token in "<" and ">" after "!", got " <b>"'),
}  # fmt: skip

TOKENS_REFUSED = {
    "root ::= <[4]>": ("1:12", 'expected a token id below 4, got "4]>"'),
    "root ::= <[4294967296]>": ("1:12", 'expected a token id below 4, got "4294967296]>"'),
    "root ::= !<[99999999999999999999]>": (
        "1:13",
        'expected a token id below 4, got "99999999999999999999]>"',
    ),
    "root ::= <[]>": ("1:12", 'expected a token\'s id after "<[", got "]>"'),
    "root ::= <[-1]>": ("1:12", 'expected a token\'s id after "<[", got "-1]>"'),
    "root ::= <[1>": ("1:13", 'expected "]>" after the token\'s id, got ">"'),
    "root ::= <[1] >": ("1:13", 'expected "]>" after the token\'s id, got "] >"'),
    "root ::= <b": ("1:10", 'the token that begins here is not closed: "<b"'),
    "root ::= <a>": ("1:10", 'no token of the vocabulary is "<a>"'),
    "root ::= !<a>": ("1:11", 'no token of the vocabulary is "<a>"'),
    "root ::= <>": ("1:10", 'no token of the vocabulary is "<>"'),
    "root ::= < b>": ("1:10", 'no token of the vocabulary is "< b>"'),
}


def refused(text, place, message, **options):
    with pytest.raises(GrammarError) as raised:
        parse_grammar(text, **options)
    error = raised.value
    assert str(error) == f"{place}: {message}"
    assert (error.line, error.column) == tuple(map(int, place.split(":")))
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text):
    refused(text, *REFUSED[text])


@pytest.mark.parametrize("text", TOKENS_REFUSED)
def test_tokens_refused(text):
    refused(text, *TOKENS_REFUSED[text], vocabulary=VOCABULARY)


@pytest.mark.parametrize(
    ("text", "place", "byte"),
    [
        (b'root ::= "\xff"', "1:11", "0xFF"),
        (b"# \xc3\xa9\xc3\n", "1:4", "0xC3"),
        (b'root ::= "a"\n\xc0\x80', "2:1", "0xC0"),
        (b'root ::= "\xed\xa0\x80"', "1:11", "0xED"),
        (b'root ::= "\xe0\x9f\xbf"', "1:11", "0xE0"),
        (b'root ::= "\xf0\x8f\xbf\xbf"', "1:11", "0xF0"),
        (b'root ::= "\xf4\x90\x80\x80"', "1:11", "0xF4"),
        (b'root ::= "\xf5\x80\x80\x80"', "1:11", "0xF5"),
        (b'root ::= "\xe2\x82"', "1:11", "0xE2"),
        (b"\x80", "1:1", "0x80"),
        (b"\xf0\x9f\x98", "1:1", "0xF0"),
    ],
)
def test_bytes_that_are_no_utf8(text, place, byte):
    refused(text, place, f"expected UTF-8, got byte {byte}")


def test_nul_is_refused():
    refused('root ::= "a"\n\0', "2:1", "expected text, got a NUL byte")
    refused(b'root ::= "\0"', "1:11", "expected text, got a NUL byte")


def test_the_longest_characters_are_read():
    text = "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
    assert body(f'root ::= "{text}"'.encode()) == sequence(*map(char, text))


@pytest.mark.parametrize(
    ("line_break", "line"), [("\n", 2), ("\r\n", 2), ("\r", 2), ("\n\r", 3), ("\r\r\n", 3)]
)
def test_lines_and_columns(line_break, line):
    refused(f'root ::= "é"{line_break}\t€ ', f"{line}:2", 'expected a rule\'s name, got "€ "')


def test_error_survives_pickling():
    with pytest.raises(GrammarError) as raised:
        parse_grammar("root ::= item")
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.line, copy.column) == ('1:10: rule "item" is not defined', 1, 10)


def test_text_is_str_or_bytes():
    assert body('root ::= "é"'.encode()) == body('root ::= "é"')
    with pytest.raises(TypeError):
        parse_grammar(7)
