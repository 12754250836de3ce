"""The rules of the house, enforced: what may import what, where randomness comes from, what the docs promise.

Each rule is a function from source text to a list of findings, and each is tried on a planted breach.
"""

from __future__ import annotations

import ast
import importlib
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import lapwing

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lapwing"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# From the ground up: a room imports itself and the rooms before it, never the package root, which imports them all.
ROOMS = (
    *("errors", "terms", "numbers", "arrays", "postgres", "sockets", "quiet"),
    *("noise", "privacy", "mechanisms", "classroom", "data"),
    *("expressions", "engines", "plan", "sql", "answers", "ledger", "curator"),
    *("collect", "lab", "survey", "client", "magic", "server", "cli"),
)
MOST_LINES = 600
# What the package root offers beside its own names, and what neither it nor they may load.
OPEN_ROOMS = ("classroom", "collect", "data", "lab", "mechanisms", "privacy")
HEAVY = {"duckdb", "sqlglot", "pyarrow", "ibis", "pandas", "polars", "matplotlib"}

# All randomness comes from noise/, and noise/ has it from one call in one file.
RANDOM_NAMES = ("random", "secrets", "uuid", "numpy.random", "os.urandom", "os.getrandom", "ssl.RAND_bytes")
RANDOM_METHODS = ("rvs", "generate_key")
RANDOM_DEVICES = ("/dev/random", "/dev/urandom")
RANDOM_ALLOWED = {"noise/bits.py": ["os.urandom"]}

# Mechanisms draw in the central model, protocols in the local one.
SAMPLING_ROOMS = ("noise", "mechanisms", "collect")

# Above mechanisms/ noise is drawn in two files only.
DRAWING_ROOMS = ("expressions", "plan", "sql", "answers", "curator")
DRAWING = ("draw", "draw_noise", "release", "keep", "choose", "respond", "signed", "start")
MECHANISMS = ("mechanism", "noise", "selection")
DRAWING_ALLOWED = {
    "plan/add_noise.py": ["release"],
    "curator/watch.py": ["draw_noise", "start"],
}
# Of which kind a loss or an accounting is matters in these rooms only; elsewhere both are used by their methods.
KIND_ROOMS = ("privacy", "mechanisms", "collect")
KINDS = ("Pure", "BoundedRange", "ZCDP", "Approximate", "PURE", "BASIC")
KIND_TEXTS = ("pure", "bounded range", "zcdp", "approximate", "basic")

# Kinds of measures and mechanisms matter in their own files and mechanisms/; above, both are used by their methods.
MEASURE_KINDS = (
    *("TotalKind", "Best", "MomentsKind", "RowShares", "PairKind", "Quantiles", "Distinct"),
    *("NoisyCells", "BestGroups", "CellQuantiles", "Laplace", "Gaussian", "GridQuantiles", "TopK"),
    *("CountThreshold", "WeightedGaussian", "TruncatedGeometric"),
    *("PrefixSums", "Ranges", "Marginals", "LaplaceMarginals", "DistributionKind", "MarginalsKind", "WorkloadKind"),
    *("NoisyRanges", "NoisyMarginals"),
)
KIND_FILES = ("kind", "aggregates", "key_selection", "moments", "quantiles", "total", "workload")
ABOVE_KINDS = ("plan", *ROOMS[ROOMS.index("plan") + 1 :])
# Engines are known in engines/ alone. The SQL that analysts write is that of one of them, and is named once.
ENGINES = ("duckdb", "postgres", "psycopg", "pyspark", "spark")
ENGINES_ALLOWED = {
    "postgres.py": ["psycopg"],  # the driver, for engines and for ledgers
    "ledger/postgres.py": ["psycopg", "psycopg.errors"],
    "ledger/postgres_server.py": ["psycopg"],
    "survey/postgres_store.py": ["psycopg"],
    "curator/settings.py": ["spark"] * 4,  # a section of lapwing.toml
    "sql/refusals.py": ["Anonymous", "duckdb"],
    "sql/read_expression.py": ["Anonymous"],  # a function that the analyst wrote
    "sql/parse.py": ["Anonymous"],  # the same
}
# A type has one name, and a name stands for one type. These may be in several files:
SHARED_NAMES = {
    "Exponential": "a mechanism, and a node that is always written forms.Exponential",
}
# Everything that the founding lectures teach.
LECTURES = (
    *("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"),
    *("L10", "L11", "L12", "L13", "L14", "L15", "L16", "L17", "L18", "L19", "L20", "L21"),
    *("L30", "L31", "L32", "L33", "L34", "L35", "L40", "L41", "L42", "L43", "L44"),
)
# Beside mechanisms, the lab draws: synthetic people, and the bad noise of other programs. It releases nothing.
SAMPLERS_ALLOWED = {"lab/random_people.py": ["lapwing.noise.sample_laplace", "lapwing.noise.sample_uniform"]}
NOT_SAMPLERS = ("SYSTEM", "BitSource", "Forks", "exp_is_sound", "exp_neg")
WRITTEN_BY_USERS = ("lapwing.toml", "survey.toml")


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a file: a dozen rules look at each."""
    return tuple(ast.walk(tree))


def broken(paths: Iterable[Path], rule: Callable[[Path], object]) -> dict[str, object]:
    """What a rule finds, file by file."""
    return {from_root(path): found for path in paths if (found := rule(path))}


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def from_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Each imported dotted name, and the local name it is bound to. Relative imports start at `package`."""
    for node in walked(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            for alias in node.names:
                yield ".".join([*base, *filter(None, [node.module]), alias.name]), alias.asname or alias.name


def upward_imports(source: str, package: str, room: str) -> list[str]:
    """Imports of a room above this one, or of the package root."""
    allowed = ROOMS[: ROOMS.index(room) + 1]
    own = [name.split(".") for name, _ in imported(parsed(source), package)]
    return [".".join(name) for name in own if name[0] == "lapwing" and not set(name[1:2]) & set(allowed)]


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name of an attribute chain, local names replaced by what they stand for."""
    match node:
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value, names)}.{attr}"
        case ast.Name(id=name):
            return names.get(name, name)
        case _:
            return "?"


def randomness(source: str) -> list[str]:
    """Every way to draw random values that the source imports, calls or opens."""
    tree = parsed(source)
    bound = list(imported(tree, "lapwing"))
    names = {local: local if name.startswith(f"{local}.") else name for name, local in bound}
    chains = [node for node in walked(tree) if isinstance(node, ast.Attribute)]
    used = {name for name, _ in bound} | {dotted(chain, names) for chain in chains}
    found = {origin for origin in RANDOM_NAMES for name in used if f"{name}.".startswith(f"{origin}.")}
    found |= {chain.attr for chain in chains if chain.attr in RANDOM_METHODS}
    found |= {node.value for node in walked(tree) if isinstance(node, ast.Constant) and node.value in RANDOM_DEVICES}
    return sorted(found)


def draws(source: str) -> list[str]:
    """Every call that draws noise from a mechanism: of a method that draws, or of the mechanism itself."""
    calls = [node.func for node in walked(parsed(source)) if isinstance(node, ast.Call)]
    methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    return sorted(methods & {*DRAWING, *MECHANISMS} | names & set(MECHANISMS))


def samplers(source: str) -> list[str]:
    """What the source imports of noise/ beyond random names and salts, the count of forks, and arithmetic."""
    names = [name.split(".") for name, _ in imported(parsed(source), "lapwing")]
    return [".".join(n) for n in names if n[:2] == ["lapwing", "noise"] and n[-1] not in NOT_SAMPLERS]


def told_apart(source: str) -> list[str]:
    """Kinds of losses and accountings that the source names, but to make a loss, or compares by their text."""
    tree = parsed(source)
    names = {local: name.split(".")[-1] for name, local in imported(tree, "lapwing") if name.startswith("lapwing.")}
    made = {id(node.func) for node in walked(tree) if isinstance(node, ast.Call)}
    tests = [node for node in walked(tree) if isinstance(node, ast.Compare | ast.MatchValue)]
    used = [node for node in walked(tree) if id(node) not in made]
    found = {names.get(node.id) for node in used if isinstance(node, ast.Name)}
    found |= {node.attr for node in used if isinstance(node, ast.Attribute)}
    texts = {node.value for test in tests for node in ast.walk(test) if isinstance(node, ast.Constant)}
    return sorted(found & set(KINDS)) + sorted(texts & set(KIND_TEXTS))


def measures_told_apart(source: str) -> list[str]:
    """Kinds of measures and of mechanisms that the source asks for by isinstance, by type or by a pattern."""
    tree = parsed(source)
    names = {local: name for name, local in imported(tree, "lapwing")}
    calls = [node for node in walked(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"]
    patterns = [node.cls for node in walked(tree) if isinstance(node, ast.MatchClass)]
    compared = [node for node in walked(tree) if isinstance(node, ast.Compare) and "type(" in ast.unparse(node)]
    parts = [part for node in (*calls, *patterns, *compared) for part in ast.walk(node)]
    used = {dotted(part, names) for part in parts if isinstance(part, ast.Name | ast.Attribute)}
    return sorted({name.split(".")[-1] for name in used if name.startswith("lapwing.")} & set(MEASURE_KINDS))


def engine_names(source: str) -> list[str]:
    """What ties a file to an engine: its driver, its functions by name, and the name of its SQL."""
    tree = parsed(source)
    drivers = [name for name, _ in imported(tree, "lapwing") if name.split(".")[0] in ENGINES]
    nodes = [node.attr for node in walked(tree) if isinstance(node, ast.Attribute) and node.attr == "Anonymous"]
    words = [node.value for node in walked(tree) if isinstance(node, ast.Constant) and node.value in ENGINES]
    return sorted([*drivers, *nodes, *map(str, words)])


def missing_files(source: str, path: Path) -> list[str]:
    """Files that docstrings and comments name and that are not there.

    A name alone may be that of any module; one with a folder starts at its own folder, the package, docs/ or
    the root.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    words = [node.value for node in walked(parsed(source)) if isinstance(node, ast.Expr)]
    docs = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    named = {name for text in (*comments, *docs) for name in re.findall(r"[\w./-]*\w\.(?:py|md|toml|png)\b", text)}
    starts = (path.parent, path.parent.parent, PACKAGE, ROOT / "docs", ROOT)
    modules = {source.name for source in SOURCES}
    found = {name for name in named if name in modules or any((start / name).exists() for start in starts)}
    return sorted(named - found - set(WRITTEN_BY_USERS))


def rooms_of_the_map(section: str) -> list[list[str]]:
    """The rooms that a table of CONTRIBUTING.md lists, row by row."""
    rows = re.findall(r"(?m)^\| (?!room)([^-|].*?) \| (.*) \|$", section)
    rooms = [re.findall(r"`(\w+)(?:/|\.py)`", first) or re.findall(r"`(\w+)`", files) for first, files in rows]
    return [row for row in rooms if row != ["__init__"]]


def asserts(source: str) -> list[int]:
    """The lines with an assert statement."""
    return [node.lineno for node in walked(parsed(source)) if isinstance(node, ast.Assert)]


def bound_by(nodes: list[ast.stmt]) -> list[str]:
    """The names that these imports bind; "?" for what is no import."""
    imports = [node.names if isinstance(node, ast.Import | ast.ImportFrom) else [ast.alias("?")] for node in nodes]
    return [alias.asname or alias.name for names in imports for alias in names]


def beyond_names(source: str) -> list[str]:
    """What a lazy root holds beyond names.

    It may hold a docstring, `__version__`, `__all__`, imports of the standard library and of errors, and once
    `if TYPE_CHECKING` with imports, `else` the homes of these same names, `__getattr__` and `__dir__`.
    """

    def plain(node: ast.stmt) -> bool:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return True
            case ast.ImportFrom(module="importlib" | "typing" | "lapwing.errors"):
                return True
            case ast.Assign(targets=[ast.Name(id="__all__" | "__version__")]):
                return True
            case ast.If(
                test=ast.Name(id="TYPE_CHECKING"),
                body=body,
                orelse=[
                    ast.Assign(targets=[ast.Name(id="_HOMES")], value=ast.Dict(keys=keys)),
                    ast.FunctionDef(name="__getattr__"),
                    ast.FunctionDef(name="__dir__"),
                ],
            ):
                lazy = {key.value for key in keys if isinstance(key, ast.Constant)}
                return set(bound_by(body)) == lazy | set(OPEN_ROOMS)
            case _:
                return False

    return [ast.unparse(node) for node in parsed(source).body if not plain(node)]


def loaded_by(program: str) -> set[str]:
    """The modules of a new process that has run the program."""
    script = f"import sys\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def declares_names(source: str) -> bool:
    """Whether the module has an `__all__`."""
    stores = (node for node in walked(parsed(source)) if isinstance(node, ast.Name))
    return any(node.id == "__all__" and isinstance(node.ctx, ast.Store) for node in stores)


def idle_tests(source: str) -> list[str]:
    """Test functions that hold no assert, no pytest.raises and no call whose name says that it checks something."""

    def checks(node: ast.AST) -> bool:
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        return isinstance(node, ast.Assert) or bool(re.search(r"assert|check|expect|raises|warns", called))

    functions = [node for node in walked(parsed(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    cases = [node for node in functions if node.name.startswith("test_")]
    return [case.name for case in cases if not any(map(checks, ast.walk(case)))]


def lectures_listed(page: str) -> list[tuple[str, str, list[str]]]:
    """The rows of docs/lectures.md: the id, where it lives, and the tests that show it."""
    rows = re.findall(r"(?m)^\| (L\d+) \|.*\|(.*)\|(.*)\|$", page)
    return [(name, where, re.findall(r"tests/[\w/]+\.py", tests)) for name, where, tests in rows]


def type_names(source: str) -> set[str]:
    """The public classes and aliases of types that a file defines: names such as Budget, not BUDGET."""
    found = set()
    for node in parsed(source).body:
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                found.add(name)
    return {name for name in found if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}


def duplicates(sources: dict[str, str]) -> dict[str, list[str]]:
    """Names of types that several of these files define, and the files."""
    homes: dict[str, list[str]] = {}
    for file, source in sources.items():
        for name in type_names(source):
            homes.setdefault(name, []).append(file)
    return {name: files for name, files in homes.items() if len(files) > 1}


def lectures_cited(path: Path) -> set[str]:
    return set(re.findall(r"\blecture:(L\d+)\b", path.read_text()))


def rows_without_proof(page: str) -> list[str]:
    """Rows whose tests do not cite them, and rows without tests that do not say "not yet"."""
    found = []
    for name, where, tests in lectures_listed(page):
        found += [f"{name} {test}" for test in tests if name not in lectures_cited(ROOT / test)]
        found += [name] if not tests and "**not yet**" not in where else []
    return found


def test_every_module_belongs_to_a_room() -> None:
    assert {room(path) for path in SOURCES} - {"__init__", "__main__"} <= set(ROOMS)


def test_imports_point_downwards() -> None:
    def rule(path: Path) -> object:
        package = ".".join(["lapwing", *path.relative_to(PACKAGE).parent.parts])
        return upward_imports(text(path), package, room(path))

    assert broken([path for path in SOURCES if room(path) in ROOMS], rule) == {}


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("from lapwing.privacy.loss import Pure", "lapwing.privacy.loss.Pure"),
        ("import lapwing.mechanisms", "lapwing.mechanisms"),
        ("import lapwing", "lapwing"),
        ("from lapwing import Laplace", "lapwing.Laplace"),
        ("from ..privacy import Pure", "lapwing.privacy.Pure"),
        ("from .. import mechanisms", "lapwing.mechanisms"),
        ("def late():\n    from lapwing.lab import audit", "lapwing.lab.audit"),
    ],
)
def test_an_upward_import_is_found(planted: str, found: str) -> None:
    assert upward_imports(planted, "lapwing.noise", "noise") == [found]


def test_a_downward_import_is_allowed() -> None:
    planted = "import numpy\nfrom lapwing.errors import Bug\nfrom . import bits\nfrom ..numbers import exact"
    assert upward_imports(planted, "lapwing.noise", "noise") == []


def test_random_bits_come_from_one_place() -> None:
    found = {inside(path): names for path in SOURCES if (names := randomness(text(path)))}
    assert found == RANDOM_ALLOWED


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("import random", "random"),
        ("from random import SystemRandom", "random"),
        ("import secrets as s", "secrets"),
        ("import numpy as np\nnp.random.default_rng()", "numpy.random"),
        ("from numpy import random as r", "numpy.random"),
        ("import numpy.random", "numpy.random"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("from os import urandom", "os.urandom"),
        ("from scipy import stats\nstats.norm().rvs(3)", "rvs"),
        ("open('/dev/urandom', 'rb')", "/dev/urandom"),
    ],
)
def test_a_second_source_of_randomness_is_found(planted: str, found: str) -> None:
    assert randomness(planted) == [found]


def test_a_harmless_name_is_not_taken_for_randomness() -> None:
    assert randomness("import os\nimport numpy as np\nos.path.join('random')\nnp.sum(x)\nself.random = 1") == []


def test_noise_is_drawn_behind_its_doors_only() -> None:
    drawing = [path for path in SOURCES if room(path) in DRAWING_ROOMS]
    assert broken(drawing, lambda path: set(draws(text(path))) - set(DRAWING_ALLOWED.get(inside(path), []))) == {}


def test_engines_are_known_in_their_room_only() -> None:
    found = {
        inside(path): names
        for path in [p for p in SOURCES if room(p) != "engines"]
        if (names := engine_names(text(path)))
    }
    assert found == ENGINES_ALLOWED


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("import duckdb", ["duckdb"]),
        ("from duckdb.functional import X", ["duckdb.functional.X"]),
        ("node.sql(dialect='duckdb')", ["duckdb"]),
        ("exp.Anonymous(this='HASH')", ["Anonymous"]),
        ("from lapwing.engines.duckdb import DuckDBEngine", []),
    ],
)
def test_a_planted_engine_is_found(planted: str, found: list[str]) -> None:
    assert engine_names(planted) == found


def test_only_mechanisms_call_samplers() -> None:
    found = {
        inside(path): names
        for path in [p for p in SOURCES if room(p) not in SAMPLING_ROOMS]
        if (names := samplers(text(path)))
    }
    assert found == SAMPLERS_ALLOWED


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("plan.noise.draw(3)", ["draw"]),
        ("mechanism(counts)", ["mechanism"]),
        ("self.session.mechanism(counts)", ["mechanism"]),
        ("kept = plan.selection.keep(units)", ["keep"]),
        ("release(plan, cells)", []),
    ],
)
def test_another_door_is_found(planted: str, found: list[str]) -> None:
    assert draws(planted) == found


def test_a_sampler_above_mechanisms_is_found() -> None:
    planted = "from lapwing.noise import SYSTEM, sample_laplace\nfrom lapwing.noise.bits import Forks"
    assert samplers(planted) == ["lapwing.noise.sample_laplace"]


def test_losses_are_used_by_their_methods() -> None:
    others = [path for path in SOURCES if room(path) not in KIND_ROOMS]
    assert broken(others, lambda path: told_apart(text(path))) == {}


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("match loss:\n    case Pure(epsilon=e):\n        pass", ["Pure"]),
        ("isinstance(loss, ZCDP | Approximate)", ["Approximate", "ZCDP"]),
        ("made = Curve if type(loss) is Curve else None", ["ZCDP"]),
        ("def f(loss: BoundedRange) -> None: ...", ["BoundedRange"]),
        ("isinstance(loss, lw.privacy.Pure)", ["Pure"]),
        ("if budget.accounting is Accounting.BASIC: ...", ["BASIC"]),
        ("match budget.accounting:\n    case Accounting.ZCDP:\n        pass", ["ZCDP"]),
        ("if loss.kind == 'zcdp': ...", ["zcdp"]),
        ("match loss.kind:\n    case 'pure':\n        pass", ["pure"]),
        ("paid = Pure(1).with_delta(0.1) + ZCDP(1)", []),
        ("class Mine:\n    Own = 1\nx: Mine = Mine.Own", []),
    ],
)
def test_a_loss_that_is_told_apart_is_found(planted: str, found: list[str]) -> None:
    loss = "from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Pure, ZCDP as Curve\n"
    assert told_apart(f"{loss}import lapwing as lw\nfrom lapwing.privacy import Accounting\n{planted}") == found


def test_measures_are_used_by_their_methods() -> None:
    kinds = {PACKAGE / "plan" / f"{name}.py" for name in KIND_FILES}
    above = [path for path in SOURCES if room(path) in ABOVE_KINDS and path not in kinds]
    assert broken(above, lambda path: measures_told_apart(text(path))) == {}


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("match measure.kind:\n    case TotalKind(summed=True):\n        pass", ["TotalKind"]),
        ("isinstance(kind, MomentsKind | Shares)", ["MomentsKind", "PairKind"]),
        ("if type(measure.kind) is TotalKind: ...", ["TotalKind"]),
        ("if type(noise) in (lw.Laplace, lw.Gaussian): ...", ["Gaussian", "Laplace"]),
        ("isinstance(measure.mechanism, lw.mechanisms.TopK)", ["TopK"]),
        ("match noise:\n    case lw.Laplace() | lw.Gaussian():\n        pass", ["Gaussian", "Laplace"]),
        ("made = TotalKind(None, False, interval).price(1, share)", []),
        ("isinstance(part, Column)", []),
    ],
)
def test_a_measure_that_is_told_apart_is_found(planted: str, found: list[str]) -> None:
    kinds = "from lapwing.plan.moments import MomentsKind\nfrom lapwing.plan.moments import PairKind as Shares\n"
    more = "from lapwing.plan.total import TotalKind\nimport lapwing as lw\n"
    assert measures_told_apart(f"{kinds}{more}{planted}") == found


def test_files_named_in_docstrings_exist() -> None:
    assert broken(SOURCES, lambda path: missing_files(text(path), path)) == {}


def test_a_file_that_is_not_there_is_found() -> None:
    planted = '"""See gone.py, docs/sql.md, sql/reader.py and lapwing.toml."""\nx = 1  # add_noise.py, cells/lost.py\n'
    assert missing_files(planted, PACKAGE / "reading" / "sources.py") == ["cells/lost.py", "gone.py"]


def test_the_map_lists_the_rooms_in_the_order_of_imports() -> None:
    house = (ROOT / "CONTRIBUTING.md").read_text().split("## The way of a question")[0]
    built = {room(path) for path in SOURCES}
    assert [name for row in rooms_of_the_map(house) for name in row] == [name for name in ROOMS if name in built]


def test_files_named_on_the_map_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.\w+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert len(named) > 20
    assert sorted(name for name in named if not any((start / name).exists() for start in (PACKAGE, ROOT))) == []


def test_a_name_stands_for_one_type() -> None:
    found = duplicates({inside(path): path.read_text() for path in SOURCES})
    assert {name: files for name, files in found.items() if name not in SHARED_NAMES} == {}
    assert set(SHARED_NAMES) - set(found) == set()


def test_a_name_for_two_types_is_found() -> None:
    planted = {
        "a.py": "class Answer: ...\nTerms = tuple[int, str]\nMOST = 3\n_Own = int\nT = TypeVar('T')",
        "b.py": "Answer: TypeAlias = int | str\nMOST = 4\n_Own = str\nT = TypeVar('T')\ndef f():\n    class Terms: ...",
        "c.py": "Terms = dict[str, str]",
    }
    assert duplicates(planted) == {"Answer": ["a.py", "b.py"], "Terms": ["a.py", "c.py"]}


def test_a_package_that_needs_posix_does_not_claim_every_system() -> None:
    names = {name for path in SOURCES for name, _ in imported(parsed(text(path)), "lapwing")}
    claims = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    systems = {claim.removeprefix("Operating System :: ") for claim in claims if claim.startswith("Operating")}
    assert "fcntl" in names
    assert systems == {"MacOS", "POSIX :: Linux"}


def test_no_check_is_an_assert() -> None:
    assert broken(SOURCES, lambda path: asserts(text(path))) == {}


def test_an_assert_is_found() -> None:
    assert asserts("def f(x):\n    assert x > 0") == [2]


def test_no_file_is_too_long() -> None:
    assert broken(SOURCES, lambda path: len(text(path).splitlines()) > MOST_LINES) == {}


def test_the_package_root_holds_names_and_nothing_else() -> None:
    assert beyond_names((PACKAGE / "__init__.py").read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "x = 1",
        "import numpy",
        "from lapwing.curator import load",
        "def load():\n    pass",
        "if TYPE_CHECKING:\n    from lapwing.curator import load",
        "if TYPE_CHECKING:\n    x = 1\nelse:\n    _HOMES = {}\n    def __getattr__(name): ...\n    def __dir__(): ...",
    ],
)
def test_code_in_the_package_root_is_found(planted: str) -> None:
    allowed = '"""Doc."""\nfrom lapwing.errors import Bug\n__all__ = ["Bug"]\n'
    assert len(beyond_names(allowed + planted)) == 1


def test_a_lazy_name_without_a_home_is_found() -> None:
    rooms = f"from lapwing import {', '.join(OPEN_ROOMS)}"
    lazy = "def __getattr__(name): ...\n    def __dir__(): ..."
    planted = f"if TYPE_CHECKING:\n    {rooms}\n    from lapwing.a import A\nelse:\n    _HOMES = {{}}\n    {lazy}"
    assert len(beyond_names(planted)) == 1
    assert beyond_names(planted.replace("{}", "{'A': 'lapwing.a.A'}")) == []


def test_a_lazy_name_is_what_a_type_checker_sees() -> None:
    blocks = [node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    assert imports
    for node in imports:
        for alias in node.names:
            seen = getattr(importlib.import_module(node.module or ""), alias.name)
            assert getattr(lapwing, alias.asname or alias.name) is seen


def test_the_package_root_offers_few_names_and_no_others() -> None:
    assert dir(lapwing) == lapwing.__all__ == sorted(lapwing.__all__)
    assert len(lapwing.__all__) <= 32
    assert [name for name in ("TopK", "Pure", "open_data", "random") if hasattr(lapwing, name)] == []
    assert lapwing.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import lapwing", {*HEAVY, "numpy", "flint", "scipy"}),
        ("import lapwing.data", {*HEAVY, "numpy", "flint", "scipy"}),
        ("import lapwing.mechanisms.additive.laplace", {*HEAVY, "scipy"}),
        ("import lapwing as lw\nlw.mechanisms, lw.privacy, lw.classroom", {*HEAVY, "scipy"}),
        ("import lapwing as lw\nlw.Laplace(epsilon=1)(3), lw.Budget(epsilon=1), lw.Refused", {*HEAVY, "scipy"}),
        ("import lapwing as lw\nlw.connect('http://localhost', 'lw_x')", HEAVY),
        ("import lapwing.cli.main", {*HEAVY, "numpy", "flint", "scipy", "rich"}),
        ("import lapwing as lw\nlw.open, lw.load, lw.Curator", {"ibis", "pandas", "polars", "matplotlib", "scipy"}),
    ],
)
def test_a_name_loads_no_more_than_it_needs(program: str, absent: set[str]) -> None:
    assert loaded_by(program) & absent == set()


def test_every_package_says_what_is_public() -> None:
    packages = [path for path in SOURCES if path.name == "__init__.py"]
    assert broken(packages, lambda path: not declares_names(text(path))) == {}


def test_public_names_exist_once() -> None:
    def rule(path: Path) -> object:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
        missing = [name for name in module.__all__ if not hasattr(module, name)]
        return missing or len(set(module.__all__)) != len(module.__all__)

    assert broken([path for path in SOURCES if declares_names(text(path))], rule) == {}


def test_every_test_asserts_something() -> None:
    assert broken(TESTS, lambda path: idle_tests(text(path))) == {}


def test_a_test_without_assertion_is_found() -> None:
    assert idle_tests("def test_a():\n    f()\ndef test_b():\n    assert f()") == ["test_a"]


def test_the_page_of_lectures_leaves_none_out() -> None:
    page = (ROOT / "docs" / "lectures.md").read_text()
    assert [name for name, _, _ in lectures_listed(page)] == list(LECTURES)


def test_every_lecture_is_shown_by_tests_that_cite_it_or_is_not_yet_there() -> None:
    assert rows_without_proof((ROOT / "docs" / "lectures.md").read_text()) == []


def test_every_cited_lecture_exists() -> None:
    """This file only speaks of them."""
    cited = {name for path in TESTS if path != Path(__file__).resolve() for name in lectures_cited(path)}
    shown = {name for name, _, tests in lectures_listed((ROOT / "docs" / "lectures.md").read_text()) if tests}
    assert cited == shown


def test_a_lecture_without_proof_is_found() -> None:
    page = "| L1 | x | `y` | tests/test_shape.py |\n| L2 | x | `y` | |\n| L3 | x | **not yet** | |\n"
    assert rows_without_proof(page) == ["L1 tests/test_shape.py", "L2"]


def test_links_of_a_page_lead_somewhere() -> None:
    def rule(path: Path) -> object:
        linked = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text(path))
        return [name for name in linked if not (path.parent / name).exists()]

    assert broken(PAGES, rule) == {}


def uncited_threats(page: str) -> list[str]:
    """Threats that a row of the threat model names, such as (A1-A3, A27), and that none of its tests cites."""
    found = []
    for row in re.findall(r"(?m)^\|.*\|$", page):
        ranges = re.findall(r"\bA(\d+)(?:-A(\d+))?", row.split("|")[1] + row.split("|")[2])
        ids = {f"A{i}" for first, last in ranges for i in range(int(first), int(last or first) + 1)}
        named = [ROOT / name for name in re.findall(r"tests/[\w/.]*\w", row)]
        texts = [path.read_text() for name in named for path in ([name] if name.is_file() else name.rglob("test_*.py"))]
        found += [name for name in sorted(ids) if not any(re.search(rf"threat:{name}\b", text) for text in texts)]
    return found


def test_every_threat_is_tried_by_a_test_that_its_row_names() -> None:
    assert uncited_threats((ROOT / "docs" / "threat-model.md").read_text()) == []


def test_a_threat_that_no_named_test_tries_is_found() -> None:
    page = "| Asking again (A98-A99) | nothing | tests/test_docs.py, tests/noise |\n| no id | nothing | tests/noise |"
    assert uncited_threats(page) == ["A98", "A99"]


def test_every_picture_is_shown_by_a_page() -> None:
    pages = [*PAGES, *(ROOT / "benchmarks").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"!\[.*\]\(.*pictures/(\w+\.png)\)", page.read_text())}
    assert {path.name for path in (ROOT / "docs" / "pictures").glob("*.png")} - shown == set()


def test_named_test_files_exist() -> None:
    def rule(path: Path) -> object:
        named = set(re.findall(r"\btests/[\w/]+\.py\b", text(path)))
        return [name for name in sorted(named) if not (ROOT / name).exists()]

    assert broken([*SOURCES, *PAGES], rule) == {}
