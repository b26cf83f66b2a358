#!/usr/bin/env python3
"""oracle.py [--target TARGET] [--cases N] [--seed N] [MNEMONIC ...]

Checks the interpreter's scalar and vector operations against AMD's own pseudocode of each instruction, on random
operands and on edge cases. Run by hand. The pseudocode is what the package tinygrad 0.14 of PyPI has of AMD's manuals:

    pip install --no-deps --target /tmp/tinygrad tinygrad==0.14.0
    PYTHONPATH=/tmp/tinygrad python3 tests/amd/oracle.py

gfx1100 is compared with RDNA3, gfx1201 with RDNA4, gfx942 and gfx90a with CDNA; gfx1030, whose manual is not among
them, with RDNA3 where an instruction has the same name. llvm-mc-19 says which forms of an instruction a target has and
how wide its operands are. Ends with status 1 when a result differs.
"""
import argparse
import ctypes
import importlib
import math
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction

HERE = pathlib.Path(__file__).resolve().parent
MANUALS = {"gfx1100": "rdna3", "gfx1201": "rdna4", "gfx1030": "rdna3", "gfx942": "cdna", "gfx90a": "cdna"}
# Rounding that AMD does not define: compared within so many units in the last place, denormals of f32 as zero.
INEXACT = re.compile(r"v_(s_)?(rcp|rsq|sqrt|exp|log|sin|cos)_")
TURNS = re.compile(r"v_(sin|cos)_")
IMMEDIATE = re.compile(r"s_(add|mul|mov|cmov|cmp)k_")
# Where the interpreter knows better than the manual, and why.
KNOWN = {
    "v_div_fmas_f32": "the manual's power of two does not undo what v_div_scale does",
    "v_div_fmas_f64": "the manual's power of two does not undo what v_div_scale does",
    "v_fract_f32": "is less than 1 on the device, which LLVM relies on",
    "v_fract_f64": "is less than 1 on the device, which LLVM relies on",
}

# ---- Numbers: every value is its bits, with a kind (u, i, f, b) and a width -----------------------------------------

FORMATS = {16: (11, -14, 15), 32: (24, -126, 127), 64: (53, -1022, 1023)}


class Value:
    __slots__ = ("kind", "width", "bits")

    def __init__(self, kind, width, bits):
        self.kind, self.width, self.bits = kind, width, bits & ((1 << width) - 1)

    def integer(self):
        return self.bits - (1 << self.width) if self.kind == "i" and self.bits >> (self.width - 1) else self.bits

    def real(self):
        return to_float(self.bits, self.width)

    def number(self):
        return self.real() if self.kind in "fg" else self.integer()

    def cast(self, kind, width):
        """The bits as another type."""
        if kind == "g":  # bf16
            return Value("f", 32, self.bits << 16)
        return Value(kind, width, self.bits)

    def convert(self, kind, width):
        """The value as another type: 64'U(…)."""
        if self.kind == "f" and kind == "f":
            return self if self.width == width else nan(width, self) if is_nan(self) else real(width, self.real())
        if kind == "f":
            return Value("f", width, self.bits)
        return Value(kind, width, self.integer() if self.kind == "i" else self.bits)


class SignedZero(Value):
    """+0.0 and -0.0, which are equal to zeros of their sign alone."""


def to_float(bits, width):
    if width == 16:
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f" if width == 32 else "<d", struct.pack("<I" if width == 32 else "<Q", bits))[0]


def quiet_nan(width):
    return Value("f", width, {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[width])


def nan(width, value):
    lost = (1 << (FORMATS[width][0] - 2)) - 1 if is_signalling(value) else 0
    return Value("f", width, quiet_nan(width).bits - lost)


def rounded(exact, width, towards_zero=False):
    """A fraction as bits, to the nearest even number or towards zero."""
    digits, least, most = FORMATS[width]
    sign, exact = exact < 0, abs(exact)
    if exact == 0:
        return 0
    exponent = max(exact.numerator.bit_length() - exact.denominator.bit_length(), least)
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exact < Fraction(2) ** exponent and exponent > least:
        exponent -= 1
    scaled = exact / Fraction(2) ** (exponent - digits + 1)
    whole = int(scaled) if towards_zero else round(scaled)
    if whole >= 1 << digits:
        whole, exponent = whole >> 1, exponent + 1
    top = {16: 15, 32: 31, 64: 63}[width]
    if exponent > most:
        largest = ((2 * most + 1) << (digits - 1)) - (1 if towards_zero else 0)
        return sign << top | largest
    biased = exponent + most if whole >> (digits - 1) else 0
    return sign << top | biased << (digits - 1) | (whole & ((1 << (digits - 1)) - 1))


def real(width, number, towards_zero=False):
    if isinstance(number, float):
        if number != number:
            return quiet_nan(width)
        if math.isinf(number) or number == 0:
            top = {16: 15, 32: 31, 64: 63}[width]
            sign = math.copysign(1, number) < 0
            digits, _, most = FORMATS[width]
            return Value("f", width, sign << top | (0 if number == 0 else (2 * most + 1) << (digits - 1)))
    return Value("f", width, rounded(Fraction(number), width, towards_zero))


def is_nan(value):
    return value.real() != value.real()


def is_signalling(value):
    return is_nan(value) and not value.bits >> {16: 9, 32: 22, 64: 51}[value.width] & 1


def exponent(value):
    digits, _, _ = FORMATS[value.width]
    return value.bits >> (digits - 1) & ((1 << (value.width - digits)) - 1)


def fma(a, b, c):
    x, y, z = a.real(), b.real(), c.real()
    if not all(map(math.isfinite, (x, y, z))):
        return real(a.width, (x * y if not (math.isfinite(x) and math.isfinite(y)) else 0.0) + z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return real(a.width, exact)
    signs = [math.copysign(1, x) * math.copysign(1, y), math.copysign(1, z)]
    return real(a.width, -0.0 if signs == [-1, -1] else 0.0)


def arithmetic(operator, a, b):
    x, y = a.real(), b.real()
    width = max(a.width, b.width)
    if x != x or y != y:
        return quiet_nan(width)
    if operator == "/" and y == 0:
        return quiet_nan(width) if x == 0 else real(width, math.copysign(math.inf, x) * math.copysign(1, y))
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        infinite = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[operator]()
        return real(width, infinite)
    p, q = Fraction(x), Fraction(y)
    exact = {"+": lambda: p + q, "-": lambda: p - q, "*": lambda: p * q, "/": lambda: p / q}[operator]()
    return real(width, exact if exact else 0.0) if operator in "+-" else real(width, exact)


def of_integer(kind, width, to_width):
    return lambda value: real(to_width, value.cast(kind, width).integer() or 0.0)


def to_integer(kind, width):
    low, high = (0, (1 << width) - 1) if kind == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)

    def convert(value):
        number = value.real()
        if number != number:
            return Value(kind, width, 0)
        integer = int(number) if math.isfinite(number) else high if number > 0 else low
        return Value(kind, width, min(max(integer, low), high))
    return convert


def whole(function):
    def apply(value):
        number = value.real()
        if not math.isfinite(number):
            return value
        result = function(number)
        return real(value.width, float(result) if result else math.copysign(0.0, number))
    return apply


def transcendental(function):
    def apply(value, *rest):
        try:
            return real(value.width, float(function(value.real(), *[r.number() for r in rest])))
        except (ValueError, ZeroDivisionError):
            return real(value.width, -math.inf if function is math.log2 and value.real() == 0 else math.nan)
        except OverflowError:
            return real(value.width, math.inf)
    return apply


def scaled(value, by):
    number = value.real()
    if not math.isfinite(number) or number == 0:
        return value
    return real(value.width, Fraction(number) * Fraction(2) ** max(min(by.integer(), 5000), -5000))


def mantissa(value):
    number = value.real()
    return value if number == 0 else real(value.width, math.frexp(number)[0])


def true_exponent(value):
    """As in exponent(S0) - 127 + 1: a denormal has the exponent that it would have."""
    number = value.real()
    if number == 0 or not math.isfinite(number):
        return Value("i", 32, FORMATS[value.width][2] - 1)
    return Value("i", 32, math.frexp(number)[1] - 1 + FORMATS[value.width][2])


def signext(value):
    return Value("i", 64, Value("i", value.width, value.bits).integer())


def signext_from_bit(value, width):
    count = width.integer()
    return Value("i", value.width, Value("i", count, value.bits).integer() if count else 0)


def truth(condition):
    return Value("u", 1, 1 if condition else 0)


FUNCTIONS = {
    "fma": fma, "trunc": whole(math.trunc), "floor": whole(math.floor), "isNAN": lambda v: truth(is_nan(v)),
    "fract": lambda v: arithmetic("-", v, whole(math.floor)(v)), "isSignalNAN": lambda v: truth(is_signalling(v)),
    "isQuietNAN": lambda v: truth(is_nan(v) and not is_signalling(v)), "cvtToQuietNAN": lambda v: quiet_nan(v.width),
    "abs": lambda v: Value("f", v.width, v.bits & ((1 << (v.width - 1)) - 1)),
    "sign": lambda v: truth(v.bits >> (v.width - 1)), "exponent": lambda v: Value("i", 32, exponent(v)),
    "true_exponent": true_exponent, "mantissa": mantissa, "ldexp": scaled, "signext": signext,
    "signext_from_bit": signext_from_bit, "sqrt": transcendental(math.sqrt), "log2": transcendental(math.log2),
    "sin": transcendental(math.sin), "cos": transcendental(math.cos), "isEven": lambda v: truth(v.real() % 2 == 0),
    "pow": lambda base, v: transcendental(lambda x: 2.0**x)(v), "bf16_to_f32": lambda v: v,
}
for source in (16, 32, 64):
    for kind in "ui":
        FUNCTIONS[f"f{source}_to_{kind}16"] = to_integer(kind, 16)
        FUNCTIONS[f"f{source}_to_{kind}32"] = to_integer(kind, 32)
        for target_width in (16, 32, 64):
            FUNCTIONS[f"{kind}{source}_to_f{target_width}"] = of_integer(kind, source, target_width)
    for target_width in (16, 32, 64):
        FUNCTIONS[f"f{source}_to_f{target_width}"] = lambda v, w=target_width: v.convert("f", w)

# ---- The pseudocode -------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"""\s*(?:
    (?P<cast>\d+'[UIFB])|(?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)U?)|
    (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?)|
    (?P<name>[A-Za-z_]\w*)|
    (?P<operator>\*\*|\+:|<<|>>|<>|<=|>=|==|!=|&&|\|\||\+=|-=|\|=|[-+*/%&|^~!<>=?:;,.(){}\[\]]))""", re.X)
BINARY = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", "<>"], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"],
          ["*", "/"], ["**"]]


class Unsupported(Exception):
    pass


class Return(Exception):
    pass


class Break(Exception):
    pass


def tokens_of(text):
    text = re.sub(r"//[^\n]*", "", text)
    result, at = [], 0
    while at < len(text.rstrip()):
        match = TOKEN.match(text, at)
        if not match:
            raise Unsupported(text[at:at + 20])
        result.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    return result


def literal(text):
    if text.startswith("0x"):
        return Value("u", 64 if "LL" in text else 32, int(text.rstrip("UL"), 16))
    if "." in text or text.endswith("F"):
        return real(32 if text.endswith("F") else 64, float(text.rstrip("F")))
    return Value("u" if "U" in text else "i", 64 if "LL" in text else 32, int(text.rstrip("UL")))


def sized(text):
    width, digits = text.split("'")
    if "." in digits:
        return real(int(width), float(digits))
    return Value("u", int(width), int(digits.rstrip("U"), 0))


class Pseudocode:
    """Executes the pseudocode of one instruction, statement by statement; state is a dictionary of values."""

    def __init__(self, text, manual):
        self.tokens, self.manual, self.at, self.live = tokens_of(text), manual, 0, True

    def peek(self):
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def take(self, text=None):
        if text is not None and self.peek() != text:
            raise Unsupported(f"{text} expected at {self.tokens[self.at:self.at + 5]}")
        self.at += 1
        return self.tokens[self.at - 1]

    def run(self, state):
        self.state, self.at = state, 0
        self.statements(())
        return state

    def statements(self, ends):
        while self.peek() is not None and self.peek() not in ends:
            if self.peek() == ";":
                self.take()
            else:
                self.statement()

    def skip(self, ends):
        """Over statements that are not executed."""
        depth = 0
        while self.peek() is not None and (depth or self.peek() not in ends):
            word = self.take()[1]
            depth += (word in ("if", "for")) - (word in ("endif", "endfor"))

    def statement(self):
        word = self.peek()
        if word == "if":
            self.conditional()
        elif word == "for":
            self.loop()
        elif word == "break":
            self.take()
            raise Break
        elif word == "return":
            self.take()
            result = Return()
            result.value = self.expression()
            raise result
        elif word == "declare":
            self.declaration()
        elif word in ("nop", "s_nop"):
            raise Unsupported(word)
        elif self.tokens[self.at + 2][1] == "lambda":
            self.function()
        else:
            self.assignment()

    def conditional(self):
        done = False
        while True:
            word = self.take()[1]
            if word == "endif":
                return
            if word in ("if", "elsif"):
                chosen = self.expression().integer() != 0 if not done else False
                if done:
                    self.skip(("then",))
                self.take("then")
            else:
                chosen = True
            ends = ("elsif", "else", "endif")
            if chosen and not done:
                self.statements(ends)
                done = True
            else:
                self.skip(ends)

    def loop(self):
        self.take("for")
        name = self.take()[1]
        self.take("in")
        first = self.expression().integer()
        self.take(":")
        last = self.expression().integer()
        self.take("do")
        begin = self.at
        for i in range(first, last + 1):
            self.at = begin
            self.state[name] = Value("i", 32, i)
            try:
                self.statements(("endfor",))
            except Break:
                break
        self.at = begin
        self.skip(("endfor",))
        self.take("endfor")

    def declaration(self):
        self.take("declare")
        name = self.take()[1]
        self.take(":")
        self.take()
        is_array = self.peek() == "["
        while self.peek() not in (";", None):
            self.take()
        if is_array and name != "S":
            self.state[name] = {}

    def function(self):
        name = self.take()[1]
        self.take("=")
        self.take("lambda")
        self.take("(")
        names = []
        while self.peek() != ")":
            word = self.take()[1]
            if word != ",":
                names.append(word)
        self.take(")")
        self.take("(")
        begin, depth = self.at, 1
        while depth:
            word = self.take()[1]
            depth += (word == "(") - (word == ")")
        end = self.at - 1
        while self.peek() == ")":
            self.take()
        self.state[name] = (names, begin, end)

    def call_lambda(self, function, arguments):
        names, begin, end = function
        outer, after, tokens = self.state, self.at, self.tokens
        self.state, self.at, self.tokens = dict(outer, **dict(zip(names, arguments))), begin, tokens[:end]
        try:
            statements = self.peek() in ("declare", "if", "return")
            value = self.statements(()) if statements else self.expression()
        except Return as result:
            value = result.value
        self.state, self.at, self.tokens = outer, after, tokens
        return value

    def assignment(self):
        if self.peek() == "{":
            self.take()
            targets = [self.target()]
            while self.peek() == ",":
                self.take()
                targets.append(self.target())
            self.take("}")
            self.take("=")
            value = self.expression()
            low = 0
            for name, path in reversed(targets):
                width = int(path[-1][1:])
                self.store(name, path, Value(path[-1][0], width, value.bits >> low))
                low += width
            return
        name, path = self.target()
        operator = self.take()[1]
        value = self.expression()
        if operator != "=":
            value = self.binary(operator[:-1], self.load(name, path), value)
        self.store(name, path, value)

    def target(self):
        name, path = self.take()[1], []
        while self.peek() in (".", "["):
            path.append(self.postfix())
        return name, path

    def postfix(self):
        if self.take()[1] == ".":
            return self.take()[1]
        first = self.expression()
        if self.peek() == ":":
            self.take()
            last = self.expression()
            self.take("]")
            return (first.integer(), last.integer())
        if self.peek() == "+:":
            self.take()
            count = self.expression()
            self.take("]")
            return (first.integer() + count.integer() - 1, first.integer())
        self.take("]")
        return (first.integer(),)

    def select(self, value, step):
        if isinstance(step, str):
            if step == "bf16":
                return value.cast("g", 16)
            if not re.fullmatch(r"[uifb]\d+", step):
                raise Unsupported(step)
            return value.cast(step[0], int(step[1:]))
        if isinstance(value, dict):
            return value[step[0]]
        if len(step) == 1:
            return Value("u", 1, value.bits >> step[0])
        high, low = step
        if high < low:
            return Value("u", low - high + 1, int(format(value.bits, f"0{low - high + 1}b")[::-1], 2))
        return Value("u", high - low + 1, value.bits >> low)

    def load(self, name, path):
        if name == "S":  # S[0] is S0
            name, path = f"S{path[0][0]}", path[1:]
        if name not in self.state:
            raise Unsupported(name)
        value = self.state[name]
        for step in path:
            value = self.select(value, step)
        return value

    def store(self, name, path, value):
        old = self.state.get(name)
        if name == "TRAPSTS":
            return
        if isinstance(old, dict):
            old[path[0][0]] = value
            return
        kinds = [step for step in path if isinstance(step, str)]
        bits = [step for step in path if not isinstance(step, str)]
        if kinds and kinds[-1][0] == "f":
            value = value.convert("f", int(kinds[-1][1:]))
        if bits:
            high, low = bits[0][0], bits[0][-1]
            mask = ((1 << (high - low + 1)) - 1) << low
            before = old.bits if old is not None else 0
            value = Value(old.kind if old is not None else "b", 64, (before & ~mask) | (value.bits << low & mask))
        elif kinds:
            value = Value(kinds[0][0], int(kinds[0][1:]), value.integer() if value.kind == "i" else value.bits)
        self.state[name] = value

    def expression(self):
        condition = self.level(0)
        if self.peek() != "?":
            return condition
        self.take()
        first = self.expression()
        self.take(":")
        second = self.expression()
        return first if condition.integer() else second

    def level(self, depth):
        if depth == len(BINARY):
            return self.unary()
        value = self.level(depth + 1)
        while self.peek() in BINARY[depth]:
            operator = self.take()[1]
            value = self.binary(operator, value, self.level(depth + 1))
        return value

    def binary(self, operator, a, b):
        if a == "DENORM" or b == "DENORM":
            other = b if a == "DENORM" else a
            return truth(other.real() != 0 and exponent(other) == 0)
        if operator == "==" and (isinstance(a, SignedZero) or isinstance(b, SignedZero)):
            return truth(a.bits == b.bits)
        if operator in ("==", "!=", "<>", "<", "<=", ">", ">="):
            x, y = a.number(), b.number()
            return truth({"==": x == y, "!=": x != y, "<>": x < y or x > y, "<": x < y, "<=": x <= y, ">": x > y,
                          ">=": x >= y}[operator])
        if operator in ("&&", "||"):
            x, y = a.integer() != 0, b.integer() != 0
            return truth(x and y if operator == "&&" else x or y)
        if operator == "**":
            if not a.real() == 2:
                raise Unsupported("a power")
            return ("power", b.integer())
        if isinstance(a, tuple) or isinstance(b, tuple):
            (_, by), other = (a, b) if isinstance(a, tuple) else (b, a)
            return scaled(other, Value("i", 32, by))
        if "f" in (a.kind, b.kind):
            return arithmetic(operator, a, b)
        if operator in ("<<", ">>"):
            x, y = a.integer(), b.integer()
            return Value(a.kind, a.width, x << y if operator == "<<" else x >> y)
        width = max(a.width, b.width)
        kind = "i" if a.kind == "i" and b.kind == "i" else "u"
        x, y = a.integer(), b.integer()
        return Value(kind, width, {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[operator])

    def unary(self):
        word = self.peek()
        if word in ("-", "+", "!", "~"):
            self.take()
            value = self.unary()
            if word in "+-" and value.kind == "f" and value.bits == 0:
                return SignedZero("f", value.width, (word == "-") << (value.width - 1))
            if word == "+":
                return value
            if word == "!":
                return truth(not value.integer())
            if word == "~":
                return Value(value.kind, value.width, ~value.bits)
            if value.kind == "f":
                return Value("f", value.width, value.bits ^ 1 << (value.width - 1))
            return Value(value.kind, value.width, -value.integer())
        value = self.primary()
        while self.peek() in (".", "["):
            if value == "DENORM":
                self.postfix()
                continue
            step = self.postfix()
            value = self.select(value, step)
        return value

    def primary(self):
        kind, word = self.take()
        if kind == "cast":
            width, letter = word.split("'")
            self.take("(")
            value = self.expression()
            self.take(")")
            if isinstance(value, tuple):
                return value
            return value.convert(letter.lower(), int(width))
        if kind == "sized":
            return sized(word)
        if kind == "number":
            return literal(word)
        if word == "(":
            value = self.expression()
            self.take(")")
            return value
        if word == "{":
            parts = [self.expression()]
            while self.peek() == ",":
                self.take()
                parts.append(self.expression())
            self.take("}")
            bits, width = 0, 0
            for part in parts:
                bits, width = bits << part.width | part.bits, width + part.width
            return Value("u", width, bits)
        constants = {"INF": real(64, math.inf), "PI": real(64, math.pi), "NAN": quiet_nan(64)}
        if word in constants:
            if self.peek() == ".":
                step = self.postfix()
                return constants[word].convert("f", int(step[1:]))
            return constants[word]
        if word == "DENORM":
            return "DENORM"
        if word.startswith(("UNDERFLOW_F", "OVERFLOW_F")):
            return real(int(word[-2:]), 0.0 if word[0] == "U" else math.inf)
        if self.peek() == "(":
            return self.call(word)
        if word == "WAVE_MODE":
            self.postfix()
            return truth(1)
        if word == "S":
            return self.load("S", [self.postfix()])
        if word not in self.state:
            raise Unsupported(word)
        return self.state[word]

    def call(self, name):
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.expression())
            if self.peek() == ",":
                self.take()
        self.take(")")
        if name in self.state:
            return self.call_lambda(self.state[name], arguments)
        if name == "f32_to_f16" and self.state["ROUND_MODE"].bits:
            number = arguments[0].real()
            return real(16, Fraction(number), True) if math.isfinite(number) and number else real(16, number)
        if name in FUNCTIONS:
            return FUNCTIONS[name](*arguments)
        if name in self.manual:
            state = dict(zip(("S0", "S1", "S2"), arguments), D0=Value("b", 64, 0), ROUND_MODE=Value("u", 2, 0))
            return Pseudocode(self.manual[name], self.manual).run(state)["D0"]
        raise Unsupported(name)


def manual_of(target):
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{MANUALS[target]}.str_pcode")
    manual = {}
    for operation, text in module.PCODE.items():
        manual.setdefault(re.sub(r"_e(32|64)$", "", operation.name.lower()), text)
    return manual


# ---- The interpreter ------------------------------------------------------------------------------------------------

def mnemonics():
    """Those of the tables, without what moves data, controls, or does nothing here."""
    names = []
    for path in (HERE / "vector_table.h", HERE / "scalar_table.h"):
        for macro, arguments in re.findall(r"^([A-Z_]+)\(([^,)]*)", path.read_text(), re.M):
            if macro in ("ORDERED", "UNORDERED", "INTEGERS"):
                relations = {"ORDERED": "lt eq le gt ge", "UNORDERED": "lg o u nge nlg ngt nle neq nlt",
                             "INTEGERS": "ne"}
                names += [f"v_cmp_{relation}_{arguments}" for relation in relations[macro].split()]
            elif macro == "SAVE_EXEC":
                names += [arguments + "_b32", arguments + "_b64"]
            elif macro not in ("NOTHING", "BRANCH", "CONTROL"):
                names.append(arguments)
    return names


LITERAL = 0x3FC00000


def forms(name, wave):
    """How an instruction may be written, in registers of one word or two; llvm-mc-19 picks."""
    vcc = "vcc_lo" if wave == 32 else "vcc"
    if name.startswith("s_") or name.startswith("v_s_"):
        one = {1: ("s2", "s4", "s6", "s8"), 2: ("s[2:3]", "s[4:5]", "s[6:7]", "s[8:9]")}
        tails = ["", ", 0x7ff3", ", 0x1234", f", 0x{LITERAL:x}"]
    else:
        one = {1: ("v2", "v4", "v6", "v8"), 2: ("v[2:3]", "v[4:5]", "v[6:7]", "v[8:9]")}
        tails = ["", f", {vcc}", f", 0x{LITERAL:x}"]
        if "mix" in name:
            return [f"{name} v2, v4, v6, v8 op_sel:[0,1,0] op_sel_hi:[{a},1,{b}]" for a in (0, 1) for b in (0, 1)]
        if "madmk" in name or "fmamk" in name:
            return [f"{name} v2, v4, 0x{LITERAL:x}, v6"]
        if name.startswith("v_cmp"):
            return [f"{name} {vcc}, {one[w][1]}, {one[x][2]}" for w in (1, 2) for x in (1, 2)]
    if name.endswith("fmamk_f32"):
        return [f"{name} s2, s4, 0x{LITERAL:x}, s6"]
    found = []
    for count in (4, 3, 2, 1):
        for widths in range(1 << count):
            written = [one[1 + (widths >> i & 1)][i] for i in range(count)]
            second = [written[0], vcc] + written[1:]
            for tail in tails:
                found.append(f"{name} {', '.join(written)}{tail}")
                if not name.startswith(("s_", "v_s_")) and count > 1:
                    found.append(f"{name} {', '.join(second)}{tail}")
    return found


def assembles(target, lines, wave):
    """Which lines the target has."""
    feature = ",+wavefrontsize64" if wave == 64 and target.startswith("gfx1") else ""
    assembler = ["llvm-mc-19", "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", f"-mattr=-real-true16{feature}"]
    done = subprocess.run(assembler, input="\n".join(lines), capture_output=True, text=True)
    wrong = {int(n) for n in re.findall(r"^<stdin>:(\d+):", done.stderr, re.M)}
    return [line for i, line in enumerate(lines, 1) if i not in wrong]


def program(text, generation):
    """Operands of lane i from 64 bit words a, b, c, d of memory; results, VCC, SCC and EXEC back."""
    wide = "b64" if generation >= 11 else "dwordx2"
    scalar = text.startswith("s_") or text.startswith("v_s_")
    lines = ["s_load_%s s[16:17], s[0:1], 0x0" % wide, "s_load_%s vcc, s[0:1], 0x8" % wide,
             "s_load_%s s[12:13], s[0:1], 0x10" % wide, "s_load_%s s[4:5], s[0:1], 0x20" % wide,
             "s_load_%s s[6:7], s[0:1], 0x28" % wide, "s_load_%s s[8:9], s[0:1], 0x30" % wide,
             "s_load_%s s[2:3], s[0:1], 0x38" % wide, "s_waitcnt lgkmcnt(0)" if generation < 12 else "s_wait_kmcnt 0x0",
             "v_and_b32 v0, 0x3ff, v0", "v_lshlrev_b32 v1, 5, v0", "v_mov_b32 v20, v1"]
    for i, register in enumerate((4, 6, 8, 2)):
        lines.append(f"global_load_{wide} v[{register}:{register + 1}], v1, s[16:17] offset:{8 * i}")
    lines.append("s_waitcnt vmcnt(0)" if generation < 12 else "s_wait_loadcnt 0x0")
    if scalar:
        lines += ["s_cmp_lg_u32 s12, 0", "s_mov_b64 exec, vcc"]
    lines += [text, "s_mov_b64 s[18:19], exec", "s_mov_b64 exec, -1", "s_cselect_b32 s20, 1, 0"]
    if scalar:
        lines += ["v_mov_b32 v2, s2", "v_mov_b32 v3, s3", "v_mov_b32 v10, s18", "v_mov_b32 v11, s19"]
    else:
        lines += ["v_mov_b32 v10, vcc_lo", "v_mov_b32 v11, vcc_hi"]
    lines += ["v_mov_b32 v12, s20", "v_mov_b32 v13, 0", f"global_store_{wide} v20, v[2:3], s[16:17]",
              f"global_store_{wide} v20, v[10:11], s[16:17] offset:8",
              f"global_store_{wide} v20, v[12:13], s[16:17] offset:16", "s_endpgm"]
    return lines


class Launch(ctypes.Structure):
    _fields_ = [("code", ctypes.c_void_p), ("image", ctypes.c_void_p), ("entry", ctypes.c_uint64),
                ("rsrc1", ctypes.c_uint32), ("rsrc2", ctypes.c_uint32), ("properties", ctypes.c_uint32),
                ("group_bytes", ctypes.c_uint32), ("private_bytes", ctypes.c_uint32), ("kernarg", ctypes.c_void_p),
                ("packet", ctypes.c_void_p), ("dimensions", ctypes.c_uint32), ("groups", ctypes.c_uint32 * 3),
                ("local", ctypes.c_uint32 * 3), ("reverse", ctypes.c_int), ("line", ctypes.c_void_p)]


class Interpreter:
    def __init__(self, folder):
        library = f"{folder}/machine.so"
        sources = [str(HERE / f"{name}.c") for name in "parse scalar vector access lanes matrix launch".split()]
        options = ["-std=gnu11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", library]
        subprocess.run(["cc"] + options + sources + ["-lm"], check=True)
        self.library, self.folder = ctypes.CDLL(library), folder
        self.library.code_parse.restype = ctypes.c_void_p

    def load(self, target, wave, texts):
        generation = int(target[3:-2]) if target.startswith("gfx1") else 9
        lines = [".text"]
        for i, text in enumerate(texts):
            lines += [f"k{i}:"] + program(text, generation)
        feature = ",+wavefrontsize64" if wave == 64 and generation > 9 else ""
        source, made = f"{self.folder}/k.s", f"{self.folder}/k.o"
        pathlib.Path(source).write_text("\n".join(lines) + "\n")
        subprocess.run(["llvm-mc-19", "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", f"-mattr=-real-true16{feature}",
                        "-filetype=obj", source, "-o", made], check=True)
        listing = subprocess.run(["llvm-objdump-19", "-d", made], check=True, capture_output=True, text=True).stdout
        # Without a base: a label's address is that of the text.
        self.entries = {int(n): int(a, 16) for a, n in re.findall(r"^([0-9a-f]+) <k(\d+)>:", listing, re.M)}
        error = ctypes.create_string_buffer(512)
        self.code = self.library.code_parse(listing.encode(), target.encode(), error, 512)
        if not self.code:
            sys.exit(error.value.decode())
        self.wave = wave

    def run(self, i, scalar, lanes, vcc, scc):
        """lanes: a list of [a, b, c, d]; returns a list of (result, VCC or EXEC, SCC)."""
        data = (ctypes.c_uint64 * (4 * self.wave))(*[word for lane in lanes for word in lane])
        kernarg = (ctypes.c_uint64 * 8)(ctypes.addressof(data), vcc, scc, 0, *scalar)
        packet = (ctypes.c_uint64 * 8)()
        launch = Launch(code=self.code, entry=self.entries[i], rsrc1=0xF0 << 12, rsrc2=2 << 1,
                        properties=8 | (1 << 10 if self.wave == 32 else 0), group_bytes=64, private_bytes=64,
                        kernarg=ctypes.addressof(kernarg), packet=ctypes.addressof(packet), dimensions=1)
        launch.groups[:] = [1, 1, 1]
        launch.local[:] = [self.wave, 1, 1]
        error = ctypes.create_string_buffer(512)
        if self.library.launch_run(ctypes.byref(launch), error, 512):
            return error.value.decode()
        return [(data[4 * i], data[4 * i + 1], data[4 * i + 2]) for i in range(self.wave)]


# ---- Operands and the comparison ------------------------------------------------------------------------------------

EDGES = {
    16: [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00,
         0x7D01],
    32: [0, 0x80000000, 1, 2, 31, 32, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x3F000000, 0x3FC00000,
         0x40200000, 0xC0200000, 0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
         0x7FC00000, 0x7FA00000, 0xFFFFFFFF, 0x7FFFFFFF, 0x00FFFFFF, 0x08000000],
    64: [0, 1 << 63, 1, 0xFFFFFFFFFFFFF, 1 << 52, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000,
         0x4004000000000000, 0x41E0000000000000, 0xC1E0000000000000, 0x41F0000000000000, 0x7FEFFFFFFFFFFFFF,
         0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FF4000000000000, 0xFFFFFFFFFFFFFFFF, 63, 64],
}


def operand(generator, width, kind):
    choice = generator.random()
    if choice < 0.4:
        return generator.choice(EDGES[width])
    if choice < 0.7 and kind == "f":  # of ordinary size
        return real(width, generator.uniform(-8, 8)).bits
    if choice < 0.8:
        return generator.randrange(70)
    return generator.getrandbits(width)


def operand_word(generator, kinds):
    if kinds == ["turns"]:
        return real(32, generator.uniform(-2, 2)).bits
    if "f64" in kinds or "u64" in kinds or "i64" in kinds or "b64" in kinds:
        return operand(generator, 64, "f" if "f64" in kinds else "u")
    if any(kind.endswith("16") for kind in kinds):
        return operand(generator, 16, "f") | operand(generator, 16, "f") << 16 | generator.getrandbits(32) << 32
    kind = "f" if "f32" in kinds else "u"
    return operand(generator, 32, kind) | operand(generator, 32, kind) << 32


def agrees(got, expected, name):
    """Elements of a register by themselves, as one NaN is like another."""
    packed = 16 if name.endswith(("f16", "f16_f32")) else 32 if name.endswith("f32") else 0
    width = expected.width if expected.kind == "f" else packed
    if not width:
        return got & ((1 << expected.width) - 1) == expected.bits
    return all(element_agrees(Value("f", width, got >> at), Value("f", width, expected.bits >> at), name)
               for at in range(0, expected.width if expected.width <= 64 else 64, width))


def element_agrees(mine, expected, name):
    x, y, width = mine.real(), expected.real(), mine.width
    if x != x or y != y:
        return x != x and y != y
    if name.startswith(("v_rndne", "s_rndne")) and x == y == 0:
        return True  # the manual's formula loses the sign of a zero
    if not INEXACT.match(name):
        return mine.bits == expected.bits
    tiny = {16: 2.0**-24, 32: 2.0**-126, 64: 2.0**-1022}[width]
    last = max(abs(y) * 2.0 ** (3 - FORMATS[width][0]), tiny)
    return x == y or abs(x - y) <= (2.0**-19 if TURNS.match(name) else last)


def expected_of(name, text, manual, lane, vcc, scc, at, wave, literal_value):
    a, b, c, d = (Value("b", 64, word) for word in lane)
    if INEXACT.match(name) and name.endswith("f32") and not lane[0] & 0x7F800000:
        a = Value("b", 64, lane[0] & 0x80000000)  # a denormal is taken for zero
    state = {"S0": a, "S1": b, "S2": c, "D0": d, "D1": Value("b", 64, 0), "SCC": Value("u", 1, scc != 0),
             "VCC": Value("u", 64, vcc), "EXEC": Value("u", 64, vcc), "laneId": Value("i", 32, at),
             "SIMM32": Value("b", 32, literal_value), "SIMM16": Value("b", 16, literal_value),
             "ROUND_MODE": Value("u", 2, 0), "ROUND_TOWARD_ZERO": Value("u", 2, 3), 
             "OPSEL": Value("u", 3, 2), "OPSEL_HI": Value("u", 3, 0)}
    if "op_sel_hi" in text:
        bits = re.search(r"op_sel_hi:\[(\d),(\d),(\d)\]", text).groups()
        state["OPSEL_HI"] = Value("u", 3, sum(int(bit) << i for i, bit in enumerate(bits)))
    if IMMEDIATE.match(name):  # a constant of 16 bits, and a register
        state["S0"] = d if name.startswith("s_cmpk") else Value("b", 64, literal_value)
        state["S1"] = Value("b", 64, literal_value)
    elif name.startswith(("s_cmp", "s_bitcmp")):
        state["S0"], state["S1"] = d, a
    if name.startswith("s_") and text.split()[1].startswith("s2") and text.count(",") == 0:
        state["S0"] = d
    pseudocode = manual[name]
    if name.startswith("v_div_scale"):  # what is not scaled is the operand
        state["D0"] = a.cast("f", int(name[-2:]))
    # Of f32 as the operands are: else divisors from 2^126 on had an inverse that is taken for zero.
    pseudocode = pseudocode.replace("1.0 / 64'F(S1.f32) == DENORM.f64", "1.0F / S1.f32 == DENORM.f32")
    if name.startswith("v_frexp_exp"):  # a denormal has the exponent that it would have as an ordinary number
        pseudocode = pseudocode.replace("exponent(", "true_exponent(")
    return Pseudocode(pseudocode, manual).run(state)


def check(interpreter, i, name, text, manual, generator, cases):
    """None, or a line that says what differs."""
    scalar = name.startswith("s_") or name.startswith("v_s_")
    kinds = [re.findall(rf"\bS{k}(?:\[[^\]]*\])*\.(\w+)", manual[name]) or ["u32"] for k in range(3)]
    if TURNS.match(name):
        kinds[0] = ["turns"]
    kinds.append(re.findall(r"\bD0\.(\w+)", manual[name]))
    numbers = re.findall(r"0x([0-9a-f]+)", text)
    literal_value = int(numbers[-1], 16) if numbers else 0
    wave, left = interpreter.wave, cases
    compares = "D0.u64[laneId]" in manual[name]
    while left > 0:
        lanes = [[operand_word(generator, k) for k in kinds] for _ in range(wave)]
        vcc = generator.getrandbits(64) if wave == 64 else generator.getrandbits(32)
        scc = generator.getrandbits(1)
        results = interpreter.run(i, lanes[0], lanes, vcc, scc)
        if isinstance(results, str):
            return f"{text}: {results}"
        for at in range(1 if scalar else wave):
            state = expected_of(name, text, manual, lanes[at], vcc, scc, at, wave, literal_value)
            got, mask, flag = results[at]
            expected = state["D0"]
            if compares:
                wrong = (mask >> at & 1) != (expected.bits >> at & 1)
            elif name.startswith("v_div_fixup") and is_nan(Value("f", int(name[-2:]), lanes[at][0])):
                wrong = False  # the steps before have overflowed, of which the manual does not speak
            elif "D0" in manual[name]:
                wrong = not agrees(got, expected, name)
            else:
                wrong = False
            if scalar and "SCC" in manual[name]:
                wrong |= flag != state["SCC"].integer()
            if scalar and "EXEC" in manual[name]:
                width = 64 if wave == 64 or name.endswith("b64") else 32
                wrong |= (mask ^ state["EXEC"].bits) & ((1 << width) - 1) != 0
            if not scalar and re.search(r"VCC(\.u64\[laneId\])? = ", manual[name]):
                bit = state["VCC"].bits if "VCC = " in manual[name] else state["VCC"].bits >> at
                wrong |= (mask >> at & 1) != (bit & 1)
            if wrong:
                operands = " ".join(f"{word:x}" for word in lanes[at])
                return (f"{text}: operands {operands} vcc {vcc >> at & 1} scc {scc}: "
                        f"{got:x} vcc {mask >> at & 1} scc {flag}, not {expected.bits:x} scc {state['SCC'].bits}")
        left -= 1 if scalar else wave
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", action="append", choices=MANUALS)
    parser.add_argument("--cases", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="say what was not compared, and why")
    parser.add_argument("mnemonic", nargs="*")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        interpreter = Interpreter(folder)
        for target in options.target or MANUALS:
            failed += check_target(interpreter, target, options)
    return 1 if failed else 0


def check_target(interpreter, target, options):
    manual, wave = manual_of(target), 32 if target.startswith("gfx1") else 64
    names = [n for n in options.mnemonic or mnemonics()]
    tried = [(name, line) for name in names for line in forms(name, wave)]
    right = set(assembles(target, [line for _, line in tried], wave))
    chosen, has = [], set()
    for name, line in tried:
        several = "mix" in name or IMMEDIATE.match(name)
        if line in right and (name not in has or several):
            has.add(name)
            chosen.append((name, line))
    compared, failed, left = set(), 0, {}
    left.update((name, "not in the manual") for name, _ in chosen if name not in manual)
    chosen = [(name, line) for name, line in chosen if name in manual]
    interpreter.load(target, wave, [line for _, line in chosen])
    generator = random.Random(options.seed)
    for i, (name, line) in enumerate(chosen):
        try:
            wrong = check(interpreter, i, name, line, manual, generator, options.cases)
        except Unsupported as what:
            left[name] = f"pseudocode not understood: {what}"
            continue
        compared.add(name)
        if wrong and name in KNOWN:
            left[name] = KNOWN[name]
        elif wrong:
            failed += 1
            print(f"{target}: {wrong}")
    print(f"{target}: {len(compared)} of {len(has)} operations compared with {MANUALS[target].upper()}'s manual, "
          f"{failed} differ")
    if options.verbose:
        for name, why in left.items():
            print(f"{target}: {name}: {why}")
        print(f"{target}: not on this target: {' '.join(name for name in names if name not in has)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
