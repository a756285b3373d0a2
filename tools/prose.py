"""Find words and phrases that this project does not use, in pages and in the source.

    python tools/prose.py           # all pages, docstrings, comments and messages
    python tools/prose.py FILE ...

One entry per rule: a pattern, and what to write instead. Run by `make check`, after
codespell has looked at the spelling.
"""

import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNT = r"(?:one|two|three|four|five|ten)"
PART = (
    r"(?:axis|block|box|cell|column|context|controller|directory|episode|file|gain|line"
    r"|member|model|pair|part|piece|plant|policy|question|region|row|run|seed|source"
    r"|step|target|task|training|worker)"
)
SMALL = (
    r"(?:and|as|at|be|by|costs?|for|from|gives?|had|has|have|in|is|needs?|of|on|or|that"
    r"|to|with)"
)
RULES = {
    rf"\b{COUNT} (?!{SMALL} )[a-z-]+ an? {PART}\b": '"per": one row per policy',
    r"\bone an? (?:row|line|column|entry|\{)": '"one per row"',
    rf"\d (?:(?:µs|ms|s|MB|GB|steps?) )?an? (?:{PART}|second|minute|call|update)\b": (
        '"per": 13 µs per step'
    ),
    r"^#{1,4} What .* that\b(?!.*[.,;])": "a heading that names the thing",
    r"\b[Nn]obody\b": "what is meant: no source, no policy, no user",
    r"\bnothing, mostly\b": "what there is",
    r"(?i:\bwhoever\b)": '"if you", or the object that is meant',
    r"\bone's own\b": '"of your own"',
    r"\b(?:to|can) be had\b": '"exists", "is known"',
    r"\b[Mm]elt(?:ed|s)?\b": '"merge"',
    r"\bth(?:is|e) very\b": "nothing: the noun is enough",
    r"\b[Uu]tili[sz]e|\b[Ll]everag(?:e|es|ing)\b": '"use"',
    r"\b[Ss]eamless(?:ly)?\b|\bblazing": "a measured number",
    r"\b[Oo]bviously\b|\b[Cc]learly\b|\b[Ee]asily\b": "nothing: if it is, it shows",
    r"\bin order to\b": '"to"',
    r"\bstate[- ]of[- ]the[- ]art\b|\bcutting[- ]edge\b": "the peer and the ratio",
    r"\b(?:TODO|FIXME|XXX)\b": "an issue",
}
PATTERNS = {re.compile(pattern): advice for pattern, advice in RULES.items()}


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that people read, with their numbers.

    Args:
        path: a page, or a Python file: of it strings and comments.
    """
    if path.suffix != ".py":
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        return
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            name = tokenize.tok_name[token.type]
            if name in ("STRING", "COMMENT", "FSTRING_MIDDLE"):
                for offset, line in enumerate(token.string.splitlines()):
                    yield token.start[0] + offset, line


def complaints(path: Path) -> Iterator[str]:
    """Yield a sentence per place that breaks a rule.

    Args:
        path: the file.
    """
    for number, line in lines_of(path):
        for pattern, advice in PATTERNS.items():
            if match := pattern.search(line):
                yield f"{path}:{number}: {match[0]!r}; write {advice}."


def main() -> None:
    """Print all complaints; exit with code 1 if there are any."""
    files = [Path(word) for word in sys.argv[1:]] or [
        *sorted(ROOT.glob("*.md")),
        *sorted(ROOT.glob("docs/**/*.md")),
        *sorted(ROOT.glob("src/**/*.py")),
        *sorted(ROOT.glob("examples/*.py")),
        *sorted(ROOT.glob("benchmarks/*.py")),
    ]
    sentences = [line for path in files for line in complaints(path)]
    print("\n".join(sentences) or f"{len(files)} files: no complaints.")
    sys.exit(bool(sentences))


if __name__ == "__main__":
    main()
