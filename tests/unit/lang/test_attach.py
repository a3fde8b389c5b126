"""Attach points as they are read from the bare text."""

from __future__ import annotations

import pytest

from tracer.errors import Diagnostic, Fault, Span
from tracer.kinds.model import AttachPoint
from tracer.lang.syntax import attach

SPAN = Span(0, 0)


def read(text: str, *params: str) -> AttachPoint:
    point, _ = attach.read(text, 0, params)
    return point


def fault(text: str) -> Diagnostic:
    with pytest.raises(Fault) as caught:
        read(text)
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("text", "path", "provider", "name"),
    [
        ("usdt:/bin/app:shop:order", "/bin/app", "shop", "order"),
        ("usdt:/bin/app:order", "/bin/app", None, "order"),
        ("usdt::shop:order", None, "shop", "order"),
        ("usdt:/bin/app::order", "/bin/app", None, "order"),
        ("usdt:*:order", "*", None, "order"),
        ("usdt:./my-app_1.2+x:order", "./my-app_1.2+x", None, "order"),
        ("usdt:/proc/123/root/usr/lib/libjvm.so:hotspot:gc__*", "/proc/123/root/usr/lib/libjvm.so", "hotspot", "gc__*"),
        ('usdt:"/my app/a:b,c{d":"p q":"n/m"', "/my app/a:b,c{d", "p q", "n/m"),
        ('usdt:/bin/"my app"/x:order', "/bin/my app/x", None, "order"),
        ('U:"/a\\"b\\\\c":order', '/a"b\\c', None, "order"),
    ],
)
def test_usdt_parts(text: str, path: str | None, provider: str | None, name: str) -> None:
    assert read(text) == AttachPoint("usdt", text, Span(0, len(text)), path, provider, name)


@pytest.mark.parametrize(
    ("text", "name", "offset", "address"),
    [
        ("uprobe:libc:malloc", "malloc", 0, None),
        ("uprobe:libc:malloc+8", "malloc", 8, None),
        ("uprobe:libc:malloc+0x1F", "malloc", 31, None),
        ("uprobe:libc:0x1234", None, 0, 0x1234),
        ("uprobe:libc:4660", None, 0, 4660),
        ("u:libc:m?ll[oc]*", "m?ll[oc]*", 0, None),
        ('uprobe:libc:"operator+8"', "operator+8", 0, None),
        ('uprobe:libc:"operator+"+8', "operator+", 8, None),
        ('uprobe:libc:"0x1234"', "0x1234", 0, None),
        ("uprobe:libc:operator+", "operator+", 0, None),
        ('uprobe:libc:"a::b<int, c>::d(char*) const"', "a::b<int, c>::d(char*) const", 0, None),
        ("uprobe:libc:main.myprint", "main.myprint", 0, None),
    ],
)
def test_uprobe_places(text: str, name: str | None, offset: int, address: int | None) -> None:
    assert read(text) == AttachPoint("uprobe", text, Span(0, len(text)), "libc", None, name, offset, address)


def test_cpp_before_a_function_is_bpftrace_s_word_for_a_name_of_c_plus_plus() -> None:
    text = 'uprobe:libc:cpp:"a::b"+4'
    assert read(text) == AttachPoint("uprobe", text, Span(0, len(text)), "libc", None, "a::b", 4, cpp=True)


@pytest.mark.parametrize(
    ("text", "path", "source", "line", "column"),
    [
        ("uprobe:/bin/app:shop.c:36", "/bin/app", "shop.c", 36, 0),
        ("uprobe:/bin/app:src/shop.c:36:5", "/bin/app", "src/shop.c", 36, 5),
        ("uprobe:/bin/app:/home/me/shop.c:36", "/bin/app", "/home/me/shop.c", 36, 0),
        ("u::shop.c:36", None, "shop.c", 36, 0),
        ("uprobe:/bin/app@src/shop.c:36", "/bin/app", "src/shop.c", 36, 0),
        ("uprobe:app@shop.c:36:5", "app", "shop.c", 36, 5),
        ('uprobe:"/opt/x@2/app"@shop.c:36', "/opt/x@2/app", "shop.c", 36, 0),
        ('uprobe:/bin/app:"my shop.c":36', "/bin/app", "my shop.c", 36, 0),
    ],
)
def test_source_lines(text: str, path: str | None, source: str, line: int, column: int) -> None:
    span = Span(0, len(text))
    assert read(text) == AttachPoint("uprobe", text, span, path, source=source, line=line, column=column)


@pytest.mark.parametrize("text", ["uprobe:app@src/a.c:30-40", "u:app:src/a.c:30-40", "uprobe:app@src/a.c:30-40/pid/"])
def test_lines_of_a_range(text: str) -> None:
    point, end = attach.read(text, 0)
    assert (point.path, point.source, point.line, point.last, point.name) == ("app", "src/a.c", 30, 40, None)
    assert text[end:] in ("", "/pid/") and point.is_of_lines


@pytest.mark.parametrize(
    ("text", "name", "cpp"),
    [
        ("uprobe:app@src/a.c:larger:*", "larger", False),
        ("u:app@src/a.c:par*:*", "par*", False),
        ('uprobe:app@src/a.c:"ns::f":*', "ns::f", False),
        ("uprobe:app@src/a.c:cpp:add:*", "add", True),
    ],
)
def test_each_line_of_a_function(text: str, name: str, cpp: bool) -> None:
    span = Span(0, len(text))
    assert read(text) == AttachPoint("uprobe", text, span, "app", None, name, source="src/a.c", by_line=True, cpp=cpp)


def test_every_function_of_c_plus_plus_in_a_source_file_is_no_function_called_cpp() -> None:
    point = read("uprobe:app@a.cc:cpp:*")
    assert (point.name, point.cpp, point.by_line, point.apart) == ("*", True, False, ("app", "a.cc"))


@pytest.mark.parametrize("rest", [" / pid == 1 / { }", "/pid/{ }", "{ }", ", uprobe:libc:malloc { }"])
def test_a_source_line_ends_where_the_predicate_or_the_next_point_begins(rest: str) -> None:
    for text in ("uprobe:/bin/app:src/shop.c:36", "uprobe:/bin/app@src/shop.c:36"):
        point, end = attach.read(text + rest, 0)
        assert (point.source, point.line, end) == ("src/shop.c", 36, len(text))


def test_a_predicate_right_after_a_function_is_no_source_file() -> None:
    for text in ("uprobe:libc:malloc/pid == 1/ {", "uprobe:libc:malloc/arg0?1:2/ {"):
        point, end = attach.read(text, 0)
        assert (point.name, text[end]) == ("malloc", "/")


def test_an_at_sign_in_a_path_is_no_source_line_by_itself() -> None:
    for text, address in (("uprobe:/opt/x@2/app:0x20", 0x20), ('uprobe:"/opt/x@2/app":32', 32)):
        assert (read(text).path, read(text).address) == ("/opt/x@2/app", address)
    assert read("uprobe:/opt/x@2/app:main").name == "main"


@pytest.mark.parametrize("text", ["uprobe:libc:offset:0x1260", "u:libc:offset:4704", "ur:libc:offset:0x1260"])
def test_a_place_in_the_file(text: str) -> None:
    point = read(text)
    assert (point.path, point.file_offset, point.address, point.source) == ("libc", 0x1260, None, None)


def test_a_source_file_of_that_name_stands_in_quotes() -> None:
    point = read('uprobe:libc:"offset":12')
    assert (point.source, point.line, point.file_offset) == ("offset", 12, None)


@pytest.mark.parametrize("place", ["main", "0x12g", '"0x12"', ""])
def test_what_is_no_place_in_a_file(place: str) -> None:
    assert fault(f"uprobe:libc:offset:{place}") == Diagnostic(
        "what follows 'offset' is a place in the file", Span(19, 19 + len(place)), "write uprobe:FILE:offset:0xOFFSET"
    )


def test_functions_of_a_source_file() -> None:
    for text in ("uprobe:/bin/app@src/a.c:init*", 'ur:"/bin/app"@src/a.c:init*', "u:/bin/app@src/a.c:init*+4"):
        point = read(text)
        assert (point.name, point.source, point.line, point.apart) == ("init*", None, 0, ("/bin/app", "src/a.c"))
    for text in ('uprobe:"/bin/app@a.c":init', "uprobe:/bin/app@:init", "uprobe:/bin/app@a.c:0x12"):
        assert read(text).apart is None
    assert read("uprobe:@a.c:init").apart == ("", "a.c")


def test_source_lines_that_cannot_be() -> None:
    assert fault("uprobe:app:shop.c:40-30") == Diagnostic(
        "the lines 40-30 end before they begin", Span(18, 23), "write 30-40"
    )  # fmt: skip
    assert fault("uprobe:app:shop.c:0-3") == Diagnostic("there is no line 0", Span(18, 21), "lines are counted from 1")
    for text in ("uretprobe:app@shop.c:3-4", "uretprobe:app@shop.c:f:*"):
        hint = "a function returns as a whole: name the function"
        assert fault(text) == Diagnostic("a uretprobe cannot be at a source line", Span(0, len(text)), hint)
    assert fault('uprobe:app@shop.c:"":*') == Diagnostic(
        "the lines of a function are meant, and none is named", Span(0, 22), "write uprobe:FILE@SOURCE:FUNCTION:*"
    )
    assert fault("uretprobe:/bin/app:shop.c:36") == Diagnostic(
        "a uretprobe cannot be at a source line", Span(0, 28), "a function returns as a whole: name the function"
    )
    assert fault("uprobe:/bin/app:shop.c:0") == Diagnostic(
        "there is no line 0", Span(23, 24), "lines are counted from 1"
    )


@pytest.mark.parametrize(
    ("text", "period_ns"),
    [
        ("interval:s:1", 1_000_000_000),
        ("i:ms:250", 250_000_000),
        ("interval:us:1", 1_000),
        ("interval:hz:3", 333_333_333),
        ("interval:1s", 1_000_000_000),
        ("interval:500ms", 500_000_000),
        ("interval:2h", 7_200_000_000_000),
    ],
)
def test_interval_periods(text: str, period_ns: int) -> None:
    assert read(text).period_ns == period_ns


@pytest.mark.parametrize("end", [" {", "\n", "\t/x/", ",usdt:b:c", "{", "/arg0/", ""])
def test_an_attach_point_ends_where_its_name_does(end: str) -> None:
    text = "usdt:/bin/app:order"
    point, at = attach.read(text + end, 0)
    assert (point.text, at) == (text, len(text))


def test_a_slash_after_the_path_opens_the_predicate_even_without_a_path() -> None:
    assert attach.read("BEGIN/1/{}", 0)[1] == len("BEGIN")
    assert attach.read("interval:s:1/1/{}", 0)[1] == len("interval:s:1")
    assert attach.read("usdt::shop:order/1/{}", 0)[1] == len("usdt::shop:order")


def test_parameters_stand_for_text_in_any_part() -> None:
    point = read("uprobe:$1:$2+$3", "/bin/app", "main", "16")
    assert (point.path, point.name, point.offset, point.text) == ("/bin/app", "main", 16, "uprobe:$1:$2+$3")


def test_a_missing_parameter_is_no_empty_part() -> None:
    assert fault("usdt:$1:shop:order").message == "$1 is not given"


@pytest.mark.parametrize("short", ["k", "kr", "t", "p", "w", "f", "it"])
def test_short_names_of_left_out_probes_are_named_in_full(short: str) -> None:
    message = fault(f"{short}:x").message
    assert message.partition(" probes are not supported: ")[0] not in ("", short)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("interval:hz:2000000001", "the interval is too short: at least 1 us"),
        ("interval:s:99999999999999999999999999", "the interval is too long"),
        ("uretprobe:libc:malloc+8", "a uretprobe cannot have an offset"),
        ("uprobe:libc:", "the uprobe attach point names no function"),
        ("END:x", "END takes nothing after it"),
    ],
)
def test_wrong_attach_points(text: str, message: str) -> None:
    assert fault(text).message == message


def test_an_address_may_be_an_attach_point_of_a_return_probe() -> None:
    assert read("ur:/bin/app:0x10").address == 16


def test_a_name_before_an_attach_point_says_nothing() -> None:
    point, at = attach.read("large=uprobe:libc:malloc /arg0/ {", 0)
    assert (point.text, point.span.start, at) == ("uprobe:libc:malloc", 6, 24)
    # Behind the first colon it is a part of a name.
    assert attach.read('uprobe:/bin/app:"operator="{', 0)[0].text == 'uprobe:/bin/app:"operator="'


def test_only_clauses_for_tests_are_left_out() -> None:
    assert attach.left_out("a=bench:one, BEGIN {", 0) == len("a=bench:one")
    assert [attach.left_out(text, 0) for text in ("test {", "test:a:b {", "uprobe:test:a {", "bench:")] == [None] * 4
