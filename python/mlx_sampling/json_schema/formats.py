"""The formats that are enforced, as expressions from end to end.

Each is a subset of what its standard allows that every reader of the format takes: years from 0001, no
leap seconds, bounded parts of names, ASCII in those that may hold any letter.
"""

from __future__ import annotations

__all__ = ["FORMATS", "NOT_ENFORCED"]

_LEAP_TAIL = (
    "(?:0[48]|[2468][048]|[13579][26])"  # last two digits of a leap year that is no century
)
_LEAP_YEAR = f"(?:[0-9]{{2}}{_LEAP_TAIL}|{_LEAP_TAIL}00)"
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = (
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
    "(?:Z|[+\\-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = f"(?:{_OCTET}\\.){{3}}{_OCTET}"
_H16 = "[0-9a-fA-F]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"


def _ipv6() -> str:
    forms = [f"(?:{_H16}:){{6}}{_LS32}"]
    for after in range(5, -1, -1):  # groups written between "::" and the last 32 bits
        before = 5 - after
        head = f"(?:(?:{_H16}:){{0,{before - 1}}}{_H16})?" if before else ""
        forms.append(f"{head}::(?:{_H16}:){{{after}}}{_LS32}")
    forms.append(f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}")
    forms.append(f"(?:(?:{_H16}:){{0,6}}{_H16})?::")
    return f"(?:{'|'.join(forms)})"


_LABEL = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
_ATEXT = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]"
_UCS = "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}"


def _uri(letters: str) -> tuple[str, str]:
    """A URI, and a reference that may be relative, with further letters than ASCII's."""
    escaped = "%[0-9A-Fa-f]{2}"
    unreserved = f"A-Za-z0-9._~\\-!$&'()*+,;={letters}"
    path = f"(?:[{unreserved}:@]|{escaped})"
    host = f"(?:[{unreserved}]|{escaped})*"
    if not letters:
        host = f"(?:{host}|\\[{_ipv6()}\\])"
    authority = f"(?:(?:[{unreserved}:]|{escaped})*@)?{host}(?::[0-9]{{0,5}})?"
    tail = f"(?:\\?(?:{path}|[/?])*)?(?:#(?:{path}|[/?])*)?"
    rooted = f"//{authority}(?:/{path}*)*|/(?:{path}+(?:/{path}*)*)?"
    absolute = f"[A-Za-z][A-Za-z0-9+.\\-]*:(?:{rooted}|{path}+(?:/{path}*)*)?{tail}"
    relative = f"(?:{rooted}|(?:[{unreserved}@]|{escaped})+(?:/{path}*)*)?{tail}"
    return absolute, f"(?:{absolute}|{relative})"


_URI, _URI_REFERENCE = _uri("")
_IRI, _IRI_REFERENCE = _uri(_UCS)
_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_SPAN = "(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)"
_DAYS = "[0-9]{1,6}D"
_MONTHS = f"[0-9]{{1,6}}M(?:{_DAYS})?"
_DURATION = (
    f"P(?:(?:[0-9]{{1,6}}Y(?:{_MONTHS})?|{_MONTHS}|{_DAYS})(?:T{_SPAN})?|T{_SPAN}|[0-9]{{1,6}}W)"
)

FORMATS = {
    name: f"^{expression}$"
    for name, expression in {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
        "email": f"{_ATEXT}+(?:\\.{_ATEXT}+)*@{_LABEL}(?:\\.{_LABEL}){{1,3}}",
        "ipv4": _IPV4,
        "ipv6": _ipv6(),
        "hostname": f"{_LABEL}(?:\\.{_LABEL}){{0,3}}",
        "uri": _URI,
        "uri-reference": _URI_REFERENCE,
        "iri": _IRI,
        "iri-reference": _IRI_REFERENCE,
        "json-pointer": _POINTER,
        "relative-json-pointer": f"(?:0|[1-9]{{1,4}}0?)(?:#|{_POINTER})",
        "duration": _DURATION,
    }.items()
}

NOT_ENFORCED = frozenset({"regex"})  # of the standard's

# what the narrower form allows, the wider one does
for _wide, _narrow in (
    ("uri-template", "uri-reference"),
    ("idn-email", "email"),
    ("idn-hostname", "hostname"),
):
    FORMATS[_wide] = FORMATS[_narrow]
