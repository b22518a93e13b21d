"""Chat templates: `lockstep template` writes what Jinja2 writes, in transformers' environment.

Skips without jinja2. LOCKSTEP_TEMPLATE_CASES=N draws N expressions by their seeds; else 150.
"""

import copy
import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from template_families import FAMILIES

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("skipped: jinja2 is not installed")
    sys.exit(77)

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", str(Path(__file__).resolve().parents[2] / "build" / "lockstep"))
DRAWN = int(os.environ.get("LOCKSTEP_TEMPLATE_CASES", "150"))


class Generation(jinja2.ext.Extension):
    """{% generation %}: what it holds is what is taught."""

    tags = {"generation"}
    taught = []

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        text = caller()
        Generation.taught.append(text)
        return text


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = tojson
ENVIRONMENT.globals["raise_exception"] = refuse
ENVIRONMENT.globals["strftime_now"] = lambda form: datetime.datetime(2026, 11, 25).strftime(form)

# Templates with what Jinja2 makes of them, and what they look at: the tests in C++ read them, too.
KEPT = json.loads((Path(__file__).resolve().parents[1] / "data" / "template_cases.json").read_text())
DATA = KEPT["variables"]


def normalised(message):
    """As transformers 5 hands a message to a template."""
    message = {key: value for key, value in message.items() if value is not None}
    thinking = next((message[key] for key in ("reasoning_content", "thinking", "reasoning") if key in message), None)
    return message if thinking is None else {"thinking": thinking, **message, "reasoning_content": thinking}


def renamed(messages):
    """The same messages, of which the calls name other functions."""
    other = copy.deepcopy(messages)
    for message in other:
        for call in message.get("tool_calls", []):
            call["function"]["name"] = "other"
    return other


def expected(template, messages, prompt=False, variables=None):
    Generation.taught = []
    given = {"tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>", **copy.deepcopy(variables or {})}
    try:
        text = ENVIRONMENT.from_string(template).render(messages=[normalised(one) for one in messages], add_generation_prompt=prompt, **given)
        return text, Generation.taught
    except Exception as error:
        return error, []


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def ours(self, template, messages, prompt=False, variables=None, *more):
        """What the program says, and the error in another case."""
        (self.folder / "template").write_bytes(template.encode())
        (self.folder / "messages.json").write_text(json.dumps({**(variables or {}), "messages": messages}))
        words = [PROGRAM, "template", self.folder / "template", self.folder / "messages.json", "--date", "2026-11-25"]
        words += ["--bos", "<s>", "--eos", "</s>"] + ["--prompt"] * prompt + list(more)
        done = subprocess.run(words, capture_output=True, check=False)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        return (done.stdout.decode(), None) if done.returncode == 0 else (None, done.stderr.decode())

    def same(self, template, messages, prompt=False, variables=None):
        """Both write the same, or both refuse."""
        wanted, taught = expected(template, messages, prompt, variables)
        text, error = self.ours(template, messages, prompt, variables)
        if isinstance(wanted, Exception):
            self.assertIsNone(text, f"{template}\n{type(wanted).__name__}: {wanted}")
            return error
        if " at 0x" in wanted:  # a place in memory: no text for us
            return error
        self.assertEqual(text, wanted, f"{template}\n{error}")
        if taught:
            parts, error = self.ours(template, messages, prompt, variables, "--taught")
            if parts is None and "loses the calls of tools" in error:
                self.assertEqual(expected(template, renamed(messages), prompt, variables)[0], wanted)
            else:
                self.assertEqual(json.loads(parts), taught, error)
        return None


class Expressions(Case):
    def test_each_is_what_jinja_makes_of_it(self):
        for case in KEPT["cases"]:
            with self.subTest(case["template"]):
                wanted, taught = expected(case["template"], [], variables=DATA)
                refused = isinstance(wanted, Exception)
                self.assertEqual((refused or wanted, taught), (case.get("refused") or case["text"], case.get("taught", [])), wanted)
                self.same(case["template"], [], variables=DATA)

    def test_drawn(self):
        for seed in range(DRAWN):
            with self.subTest(seed):
                self.same("{{ " + Draw(seed).expression(3) + " }}", [], variables=DATA)


class Draw:
    """Expressions by a seed. Most of them have a meaning."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def atom(self):
        literals = ["0", "1", "-2", "3.5", "'a'", "'b c'", '"\\u00e9"', "''", "none", "true", "[]", "[1, 'a']", "(1, 2)", "{'k': 1}", "missing"]
        return self.random.choice(list(DATA) + literals)

    def expression(self, depth):
        if depth == 0:
            return self.atom()
        inner = lambda: self.expression(depth - 1)
        kind = self.random.randrange(12)
        if kind < 3:
            operator = self.one("+", "-", "*", "/", "//", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or", "~")
            return f"({inner()} {operator} {inner()})"
        if kind < 6:
            name = self.one("trim", "length", "upper", "lower", "title", "capitalize", "string", "int", "float", "first", "last", "list",
                            "tojson", "join", "join(', ')", "sort", "unique|list", "default('d')", "default('d', true)", "reverse|list",
                            "tojson(indent=2)", "round", "round(1)", "abs", "items|list", "dictsort", "replace('a', 'o')", "indent(2, true)",
                            "map('upper')|list", "select|list", "reject('none')|list", "selectattr('name')|list", "map(attribute='name')|list",
                            "max", "min", "safe", "e", "count", "select('defined')|list", "tojson(sort_keys=true)")
            return f"({inner()})|{name}"
        if kind < 8:
            test = self.one("defined", "none", "string", "mapping", "iterable", "sequence", "number", "boolean", "true", "false", "undefined",
                            "integer", "float", "odd", "even", "divisibleby 2", "in [1, 'a']", "eq 1", "upper", "lower", "sameas none")
            return f"({inner()} is {self.one('', 'not ')}{test})"
        if kind < 9:
            return f"({self.one(*DATA, '(l|list)', '(s|upper)')})[{self.one('0', '-1', '1:', ':-1', '::-1', '::2', repr('a'), repr('items'), '5')}]"
        if kind < 11:
            call = self.one("upper()", "split()", "split(',')", "strip()", "lstrip('aH')", "startswith('H')", "get('a')", "get('z', 1)", "items()|list",
                            "keys()|list", "values()|list", "replace('l', '')", "title()", "splitlines()", "find('o')", "rsplit(' ', 1)", "index(1)",
                            "count('a')", "isdigit()", "endswith('d')", "capitalize()", "name", "a", "x", "append(1)", "rstrip()")
            return f"({inner()}).{call}"
        return f"({inner()} if {inner()} else {inner()})"


class Families(Case):
    def test_templates_of_many_models(self):
        conversations = json.loads((Path(__file__).parent / "template_chats.json").read_text())
        for family, template in FAMILIES.items():
            for name, chat in conversations.items():
                for prompt in (False, True):
                    with self.subTest(f"{family}, {name}, {prompt}"):
                        variables = {key: value for key, value in chat.items() if key != "messages"}
                        self.same(template, chat["messages"], prompt, variables)


class Refusals(Case):
    def test_what_is_not_known_is_named_with_its_place(self):
        for template, said in {
            "a\n  {{ 1 | nosuch }}": "line 2, column 10: the filter 'nosuch' is not known",
            "{% if x is nosuch %}{% endif %}{{ y is nosuch }}": "column 40: the test 'nosuch' is not known",
            "é{% include 'x' %}": "line 1, column 5: the tag 'include' is not known",
            "{% for x in messages recursive %}{% endfor %}": "column 22: loops that are 'recursive' are not known",
            "{{ raise_exception('No. ' ~ 3) }}": "the template refuses the messages: No. 3",
            "{{ a.b.c }}": "'a' is undefined",
            "{{ [1]|map('int') }}": "a generator is no text",
        }.items():
            with self.subTest(template):
                self.assertIn(said, self.ours(template, [])[1])


if __name__ == "__main__":
    unittest.main()
