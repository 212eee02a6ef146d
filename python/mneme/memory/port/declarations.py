"""What all calls of `setup` together say: each declaration once, in letters of the sizes, with its condition."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

from .setups import MOST_CALLS, SIZES, Call, Calls, Item, Variable, values_for
from .traced import Expression, constant, expression_of

Term = tuple[tuple[Expression, bool], ...]
"""Conditions with their answers, all of which have to be so."""
TermsOf = Callable[[list[Call], list[Call]], Optional[list[Term]]]


@dataclass
class Declaration:
    """An item, as some calls declare it. `terms`: it is declared where one of them is so; none = always."""

    key: tuple[str, str]
    fields: dict[str, Any]  #: of Expressions, and tuples of them
    terms: list[Term] = field(default_factory=list)
    doubt: str = ""  #: why it may be wrong; "" = it agrees with all calls
    is_first: bool = True  #: in doubt: whether the first call that was not refused declares it

    @property
    def condition(self) -> str:
        """In C++; "" = always."""
        words = [" && ".join(itertools.starmap(_literal, term)) for term in self.terms]
        if len(words) > 1:
            words = [f"({word})" if " && " in word else word for word in words]
        return " || ".join(words)


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _literal(condition: Expression, answer: bool) -> str:
    if not answer and condition.op in _OPPOSITE:
        condition, answer = Expression(_OPPOSITE[condition.op], condition.parts), True
    return condition.statement if answer else f"!{condition.cpp}"


MOST_ROUNDS = 8


def declarations_of(calls: Calls) -> list[Declaration]:
    """Refusals; then declarations of the calls that were not refused, in the order in which they come first. Where it is not
    known whether a condition matters, `setup` is called with its other answer, and the call is put to the others."""
    wanted: list[dict[str, Any]] = []
    found = _declared(calls.all, calls.variables, wanted)
    for _ in range(MOST_ROUNDS):
        distinct = {repr(sorted(values.items())): values for values in wanted}
        wanted.clear()
        before = len(calls.all)
        for values in distinct.values():
            if len(calls.all) < 2 * MOST_CALLS:
                calls.add(values)
        if len(calls.all) == before:
            break
        found = _declared(calls.all, calls.variables, wanted)
    return found


def _declared(calls: list[Call], variables: list[Variable], wanted: list[dict[str, Any]]) -> list[Declaration]:
    """As `declarations_of`, of these calls; `wanted` as in _Search."""
    by_name = {one.name: one for one in variables}

    refusals: list[Term] = []

    def terms_of(having: list[Call], others: list[Call]) -> Optional[list[Term]]:
        return _terms(having, others, _Search(by_name, wanted, refusals))

    whole = [call for call in calls if call.refused is None]
    refused = [call for call in calls if call.refused is not None]
    out = [_refusal(place, [call for call in refused if _place_of(call) == place], calls, terms_of)
           for place in dict.fromkeys(map(_place_of, refused))]
    refusals += [term for one in out for term in one.terms]
    found: dict[tuple[str, str], list[tuple[Call, Item]]] = {}
    for call in whole:
        for item in call.items:
            found.setdefault(item.key, []).append((call, item))
    for key, given in found.items():
        out += _variants(key, given, whole, variables, terms_of)
    return out


def _refusal(place: str, some: list[Call], calls: list[Call], terms_of: TermsOf) -> Declaration:
    others = [call for call in calls if call not in some]
    terms = terms_of(some, others)
    text = str(some[0].refused) or type(some[0].refused).__name__
    is_one = all(str(call.refused) == str(some[0].refused) for call in some)
    doubt = "" if is_one else "its text is that of one case"
    if not terms:
        doubt = f"setup fails in some cases, as with {_difference(others, some)}"
    return Declaration(("refusal", place), {"text": constant(text)}, terms or [], doubt, is_first=bool(terms))


def _place_of(call: Call) -> str:
    """The line of the error in the memory's own files, the innermost one."""
    trace = call.refused.__traceback__ if call.refused else None
    place = ""
    while trace is not None:
        if "/mneme/memory/" not in trace.tb_frame.f_code.co_filename:
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


# ---- fields ----


def _forms(value: Any) -> Any:
    return tuple(map(_forms, value)) if isinstance(value, tuple) else expression_of(value)


def _leaves(form: Any) -> Iterator[Expression]:
    if isinstance(form, tuple):
        for each in form:
            yield from _leaves(each)
    else:
        yield form


def _with_leaves(form: Any, leaves: Iterator[Expression]) -> Any:
    return tuple(_with_leaves(each, leaves) for each in form) if isinstance(form, tuple) else next(leaves)


def _structure(form: Any) -> Any:
    return tuple(map(_structure, form)) if isinstance(form, tuple) else None


def _variants(key: tuple[str, str], given: list[tuple[Call, Item]], calls: list[Call], variables: list[Variable],
              terms_of: TermsOf) -> list[Declaration]:
    """The item in its forms, each with the calls that declare it so."""
    names = list(given[0][1].fields)
    forms = [tuple(_forms(item.fields[name]) for name in names) for _, item in given]
    for structure in dict.fromkeys(map(_structure, forms)):
        places = [i for i, form in enumerate(forms) if _structure(form) == structure]
        _generalise(forms, places, [call for call, _ in given], variables)
    groups: dict[str, list[int]] = {}
    for i, form in enumerate(forms):
        groups.setdefault(_text(form), []).append(i)
    out = []
    for places in groups.values():
        some = [given[i][0] for i in places]
        others = [call for call in calls if call not in some]
        terms = terms_of(some, others)
        if terms is None:
            return [_in_doubt(key, names, forms, given, calls, terms_of)]
        out.append(Declaration(key, dict(zip(names, forms[places[0]])), terms))
    return out


def _text(form: Any) -> str:
    return f"({', '.join(map(_text, form))})" if isinstance(form, tuple) else str(form.statement)


def _in_doubt(key: tuple[str, str], names: list[str], forms: list[Any], given: list[tuple[Call, Item]],
              calls: list[Call], terms_of: TermsOf) -> Declaration:
    """As the first call that has it declares it."""
    having = [call for call, _ in given]
    terms = terms_of(having, [call for call in calls if call not in having])
    texts = {id(call): _text(form) for (call, _), form in zip(given, forms)}
    others = [call for call in calls if texts.get(id(call)) != texts[id(having[0])]]
    alike = [call for call in calls if call not in others]
    doubt = f"setup declares it otherwise with {_difference(alike, others)}"
    return Declaration(key, dict(zip(names, forms[0])), terms or [], doubt, is_first=having[0] is calls[0])


def _difference(some: list[Call], others: list[Call]) -> str:
    """The values of one of the others that differ from those of one of these calls: the fewest."""
    pairs = [({name: value for name, value in other.values.items() if value != one.values[name]})
             for one in some[:50] for other in others]
    return ", ".join(f"{name} = {value!r}" for name, value in min(pairs, key=len, default={}).items()) or "the same values"


def _generalise(forms: list[Any], places: list[int], calls: list[Call], variables: list[Variable]) -> None:
    """Puts expressions for numbers that differ from call to call, where one fits all of them."""
    rows = [list(_leaves(forms[i])) for i in places]
    for leaf in range(len(rows[0]) if rows else 0):
        numbers = [(row, calls[i]) for row, i in zip(rows, places) if row[leaf].op == "constant" and _is_number(row[leaf].parts[0])]
        values = {row[leaf].parts[0] for row, _ in numbers}
        if len(values) < 2:
            continue
        fit = _fitting([(row[leaf].parts[0], call) for row, call in numbers], variables)
        if fit is not None:
            for row, _ in numbers:
                row[leaf] = fit
    for row, i in zip(rows, places):
        forms[i] = _with_leaves(forms[i], iter(row))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fitting(numbers: list[tuple[Any, Call]], variables: list[Variable]) -> Optional[Expression]:
    """The simplest expression that gives all of these numbers."""
    return next((one for one in _candidates(variables, isinstance(numbers[0][0], float))
                 if all(_gives(one, number, call) for number, call in numbers)), None)


def _gives(expression: Expression, number: Any, call: Call) -> bool:
    try:
        return bool(expression.value(call.values) == number)
    except (ArithmeticError, TypeError):
        return False


def _candidates(variables: list[Variable], is_real: bool) -> Iterator[Expression]:
    names = {one.name for one in SIZES}
    whole = [one.expression for one in sorted(variables, key=lambda one: one.name not in names) if one.kind == "integer"]
    if is_real:
        yield from (one.expression for one in variables if one.kind == "real")
    yield from whole
    yield from (Expression("*", (constant(factor), one)) for one in whole for factor in (2, 3, 4, 6, 8))
    yield from (Expression("//", (one, constant(part))) for one in whole for part in (2, 4, 8))
    for left, right in itertools.permutations(whole, 2):
        for op in ("*", "+", "-", "//"):
            yield Expression(op, (left, right))
    yield from (Expression("*", (one, one)) for one in whole)
    yield from (Expression(op, (one, constant(1))) for one in whole for op in ("+", "-"))
    for factor, (left, right) in itertools.product((2, 3, 4), itertools.combinations_with_replacement(whole, 2)):
        for op in ("*", "+"):
            yield Expression("*", (constant(factor), Expression(op, (left, right))))


# ---- conditions ----


@dataclass
class _Search:
    """`wanted` gets values of calls that would tell whether a condition matters; none that `refusals` refuse."""

    variables: dict[str, Variable]
    wanted: list[dict[str, Any]]
    refusals: list[Term]


def _terms(having: list[Call], others: list[Call], search: _Search) -> Optional[list[Term]]:
    """What tells these calls from the others; [] = there are no others, None = nothing that was asked does."""
    if not others:
        return []
    terms: dict[str, Term] = {}
    for call in having:
        if any(_is_so(term, call) for term in terms.values()):
            continue
        term = tuple((question.condition, question.answer) for question in call.questions)
        if not _fits(term, others):
            return None
        term = _shortened(term, call, having, others, search)
        terms.setdefault(" && ".join(condition.statement + str(answer) for condition, answer in term), term)
    kept = list(terms.values())
    for term in list(kept):  # those that others cover
        rest = [one for one in kept if one is not term]
        if rest and all(any(_is_so(one, call) for one in rest) for call in having):
            kept = rest
    return kept


def _is_so(term: Term, call: Call) -> bool:
    return all(call.says(condition) is answer for condition, answer in term)


def _fits(term: Term, others: list[Call]) -> bool:
    """Whether it is so in none of the others."""
    return not any(all(call.says(condition) in (answer, None) for condition, answer in term) for call in others)


def _shortened(term: Term, call: Call, having: list[Call], others: list[Call], search: _Search) -> Term:
    """Without conditions that make no difference: all calls give their answer, or a call with the other answer is one of
    `having`, or there are no values with the other answer."""
    for one in term:
        rest = tuple(each for each in term if each is not one)
        opposite = (*rest, (one[0], not one[1]))
        if not _fits(rest, others):
            continue
        is_same = not any(_is_so((opposite[-1],), each) for each in [*having, *others])
        values = None
        if not is_same and not any(_is_so(opposite, each) for each in having):
            values = values_for(list(opposite), call.values, search.variables, search.refusals)
        if values is None:
            term = rest
        else:
            search.wanted.append(values)
    return term
