"""Can something unwind the stack through a function while a return probe holds its return address?

A return probe (`uretprobe`) works by writing another return address into the frame: that of a trampoline, from which
the kernel sends the function back to its caller. An unwinder that walks the stack meanwhile finds the trampoline, an
address without unwind information. For a C++ exception or a Rust panic the stack ends there: nothing catches it, and
the process is killed. Go copies whole stacks and finds a return address it does not know: the same. (All three were
tried.)

So for each function the question is whether anything may unwind through it. This is the evidence:

* *The language of the file.* A C++ file (it needs libstdc++, libc++ or libgcc_s, or holds or imports the personality
  routine of C++ or the functions that raise) may be crossed by exceptions everywhere but in functions that call
  nothing. The same for Rust. In a Go file stacks move at any call.
* *Exception tables.* A file without such imports (linked statically and stripped) still has unwind tables that name a
  personality routine. A C file has none, unless built with -fexceptions *and* using clean-ups; that counts as crossing.
* *Calls back.* An exception can also cross C code: thrown by a callback, caught above. A C *library* function that
  calls through a pointer is therefore suspect, a plain C *program* is not: its callbacks are its own.
* *Stacks that are switched.* The kernel keeps the true return addresses of a thread in a row, and drops those
  that lie below the stack pointer. Where coroutines share a thread, a function that is suspended loses its own: it
  returns to nowhere, and the program dies of SIGILL or SIGSEGV (tried on 6.18 with swapcontext and the fibers of PHP
  8.2 and Ruby 3.1). Such a file uses a function that switches stacks.
  The same ends a thread whose signal handlers run on an alternate stack above its own, as SBCL's do. Python has such a
  stack too, but for handlers that end the program.
* *OCaml's collector* walks the stack from one return address to the next and looks each up: SIGSEGV (tried with 4.13).
* *The C library* is used by every language. Its functions carry clean-up tables for thread cancellation, which do not
  make them throw: a cancelled thread whose unwinding meets a trampoline takes it for the end of the stack, and ends as
  it should. So all are allowed but the few that call back into the program (`CALLS_BACK`).
* Code that is *not called* finds no return address where it begins, and a return probe puts its own over what is there:
  of a program's entry point that is argc, of the dynamic linker's resolvers (`_dl_runtime_resolve_xsavec`) an argument
  (programs then die of SIGSEGV), of a signal's return the frame of registers, of a function's cold part a register that
  the function has saved, or a variable. The unwind tables say where a frame is there before the code begins.
* Some functions of the C library *look at their return address*: dlsym(RTLD_NEXT) fails, backtrace() sees no caller.
* Haskell's functions are *jumped to*. What is on the stack then is a variable.
* Functions that *return twice* keep a return address for later (`setjmp`) or run on another's stack (`vfork`). A return
  probe on them is never right. Other such functions are recognised by their code (`own_return.py`).

What this cannot see: C programs with a plug-in that throws through them or switches their stacks (but for greenlet
and Coro, see `plugins.py`), signal handlers of another file on alternate stacks, and programs without symbols that were
linked statically with what switches stacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from tracer.kinds.arch import EM_X86, EM_X86_64
from tracer.resolve.elf.structures import ET_EXEC, PT_INTERP
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import is_cold
from tracer.resolve.safety.code import Code, Range
from tracer.resolve.safety.own_return import reads_own_return

_CPP_LIBRARIES = re.compile(
    r"(libstdc\+\+|libc\+\+|libc\+\+abi|libgcc_s|libunwind|libcxxrt|libgnat.*|libgnarl.*)\.so(\..*)?$"
)
_CPP_NAMES = frozenset(
    {"__gxx_personality_v0", "__cxa_throw", "__cxa_begin_catch", "_Unwind_RaiseException", "_Unwind_Resume"}
)
_C_LIBRARIES = re.compile(
    r"(libc\.so\.6|libpthread\.so\.0|libm\.so\.6|librt\.so\.1|libdl\.so\.2|libresolv\.so\.2|ld-linux.*\.so\.\d"
    r"|libc\.musl-.*\.so\.1|libc\.so|ld-musl-.*\.so\.1)$"
)

_SWITCHES = """
swapcontext jump_fcontext ontop_fcontext bthread_jump_fcontext swoole_jump_fcontext coroutine_transfer
coro_transfer co_switch co_swapcontext coctx_swap acosw _mco_switch
"""
_SUSPENDS = """
zend_fiber_switch_context rb_fiber_resume qemu_coroutine_yield
scm_c_with_continuation_barrier scm_c_define_gsubr scm_c_make_gsubr call_into_lisp
"""
"""Functions that continue on another stack, and functions that call those: of the C library, Boost.Context and its
copies, Ruby, libcoro, libco and others; of PHP, Ruby, QEMU, Guile (whose continuations are copies of the stack) and
SBCL.
"""
_CONTEXTS, _OPENSSL = ("makecontext", "setcontext"), "ASYNC_pause_job"
"""Functions of the C library by which, with longjmp(), stacks are switched. OpenSSL's jobs switch them too, if an
engine asks for it.
"""
_ALTERNATE, _THREADS, _PYTHON = "sigaltstack", "pthread_create", "Py_BytesMain"
_RETURNS_TWICE = """
setjmp _setjmp __setjmp sigsetjmp __sigsetjmp getcontext __getcontext __swapcontext makecontext setcontext
vfork __vfork __libc_vfork ASYNC_pause_job longjmp _longjmp siglongjmp __longjmp __libc_longjmp __libc_siglongjmp
"""
RETURNS_TWICE = frozenset((_RETURNS_TWICE + _SWITCHES).split())
"""Functions that return more than once, or on another stack."""

_OCAML = "caml_frametable"

_NOT_CALLED = """
_start __start _dl_start_user _dlstart __restore_rt __restore __startcontext __start_context __morestack
"""
_NEVER_CALLED = frozenset(_NOT_CALLED.split())
_RESOLVERS = "_dl_runtime_"
_HASKELL, _HASKELL_CODE = "stg_ap_p_info", ("_info", "_fast", "zh")

READS_CALLER = frozenset(("dlopen", "dlsym", "dlvsym", "dlmopen", "backtrace", "__backtrace"))
"""Functions of the C library that look at their return address, and answer by what lies there."""

_CALLS_BACK = """
qsort qsort_r __qsort_r bsearch lfind lsearch tsearch tfind tdelete twalk twalk_r tdestroy __tsearch __tfind __tdelete
__twalk __twalk_r __tdestroy pthread_once __pthread_once call_once dl_iterate_phdr __dl_iterate_phdr ftw ftw64 nftw
nftw64 fts_open fts_read fts_children fts64_open fts64_read fts64_children scandir scandir64 scandirat scandirat64 glob
glob64 error error_at_line argp_parse __argp_parse exit __libc_start_main __libc_start_call_main
__libc_start_main_impl start_thread clone __clone clone3 __cxa_finalize __cxa_at_quick_exit quick_exit pthread_exit
__pthread_exit dlopen dlclose __libc_dlopen_mode _dl_catch_exception _dl_catch_error __nptl_deallocate_tsd
__call_tls_dtors _dl_init _dl_fini
"""
CALLS_BACK = frozenset(_CALLS_BACK.split())
"""Functions of the C library that call the program's own: comparisons, visitors, initialisers, constructors."""

# `call *%reg`, `call *disp(%reg)` and so on: opcode FF with 2 in the middle bits of the next byte. Searching the bytes
# finds every such instruction, and now and then something else, which errs on the careful side.
_INDIRECT_CALL = re.compile(rb"\xff[\x10-\x17\x50-\x57\x90-\x97\xd0-\xd7]")


class Unwinding:
    """The things that may unwind through the functions of one file."""

    def __init__(self, code: Code, switching: Callable[[], str | None] = lambda: None) -> None:
        """`switching`: why its stacks may be switched, where a process that has it loaded says so."""
        self._code = code
        self._elf = code.elf
        self._switching = switching
        self._through_pointers: dict[tuple[int, int], bool] = {}

    def is_never_called(self, function: Function) -> bool:
        """Whether it is entered by a jump or by the kernel, and not by a call."""
        name = function.name
        if name.endswith(_HASKELL_CODE) and self._haskell:
            return True
        if function.address == self._elf.entry or name in _NEVER_CALLED or name.startswith(_RESOLVERS):
            return True
        if self._code.frames.frame_at(function.address) is None:
            return is_cold(name)
        return self._code.frame_is_there(function.address)

    @cached_property
    def _haskell(self) -> bool:
        return self._mentioned((_HASKELL,)) is not None

    @cached_property
    def go(self) -> bool:
        """Whether Go's compiler made the file."""
        marks = (".gopclntab", ".go.buildinfo", ".note.go.buildid", ".data.rel.ro.gopclntab")
        return any(section.name in marks for section in self._elf.sections)

    @cached_property
    def collected(self) -> bool:
        """Whether a garbage collector looks return addresses up. Then a return probe ends the program by itself."""
        return self.go or self._mentioned((_OCAML,)) is not None

    def harmed(self, function: Function) -> bool:
        """Whether a return probe does harm by itself, without any exception."""
        named = self.c_library and function.name in READS_CALLER
        return self.collected or named or reads_own_return(self._code, function)

    @cached_property
    def switched(self) -> str | None:
        """Says why functions of the file may wait while others run on the same thread; None where they do not."""
        name = None if self.c_library else self._switch
        return self._switching() if name is None else f"it may switch stacks while it runs (the file uses {name})"

    @property
    def _switch(self) -> str | None:
        """The functions that switch stacks which the file uses. An alternate signal stack lies above a thread's stack,
        except the main thread's.
        """
        names = (_SWITCHES + _SUSPENDS).split()
        if self._mentioned((_OPENSSL,)) is None:
            names += _CONTEXTS
        if self._mentioned((_THREADS,)) is not None and self._mentioned((_PYTHON,)) is None:
            names.append(_ALTERNATE)
        return self._mentioned(names)

    @cached_property
    def rust(self) -> bool:
        """Whether Rust's compiler made any of the file."""
        comment = self._elf.section(".comment")
        if comment is not None and b"rustc version" in self._elf.content(comment):
            return True
        table = self._code.symbols.static
        return table is not None and (table.mentions("rust_eh_personality") or table.mentions("rust_begin_unwind"))

    @cached_property
    def c_library(self) -> bool:
        """Whether the file is the C library, a part of it or the loader."""
        return self._elf.soname is not None and _C_LIBRARIES.match(self._elf.soname) is not None

    @cached_property
    def library(self) -> bool:
        """Whether it is a shared library, and not a program."""
        return self._elf.type != ET_EXEC and not any(segment.type == PT_INTERP for segment in self._elf.segments)

    @cached_property
    def of_file(self) -> str | None:
        """Says why any function of the file may be unwound through; None where nothing does that."""
        if self.go:
            return "Go moves stacks and finds return addresses by their value"
        if self.switched is not None:
            return self.switched
        if self.rust:
            return "a Rust panic may cross it"
        if self.c_library:
            return None
        if not self._elf.has_section_headers:
            return "nothing says what compiler made the file, which has no section headers"
        if self.collected:
            return "OCaml's collector finds return addresses by their value"
        for name in self._elf.needed:
            if _CPP_LIBRARIES.match(name):
                return f"a C++ exception may cross it (the file needs {name})"
        for table in (self._code.symbols.exported, self._code.symbols.static):
            if table is None:
                continue
            for name in sorted(_CPP_NAMES):
                # A static C program holds _Unwind_Resume too, for thread cancellation; C++ shows by the other names.
                if table.mentions(name) and (table is self._code.symbols.exported or not name.startswith("_Unwind")):
                    return f"a C++ exception may cross it (the file uses {name})"
        if self._code.frames.personality and not self._static_c:
            return "an exception may cross it (the file has exception tables)"
        return None

    def _mentioned(self, names: Sequence[str]) -> str | None:
        """The first of the names that a symbol of the file has, defined or not."""
        tables = [table for table in (self._code.symbols.exported, self._code.symbols.static) if table is not None]
        return next((name for name in names if any(table.mentions(name) for table in tables)), None)

    @cached_property
    def _static_c(self) -> bool:
        """Whether it is a static program with symbols that name no C++. Its unwind tables are the C library's then."""
        return not self._elf.needed and self._code.symbols.static is not None

    def through(self, function: Function) -> str | None:
        """Says why this function may be unwound through; None where nothing does that."""
        reason = self.of_file
        if reason is not None:
            return reason
        if self.c_library:
            if function.name in READS_CALLER:
                return "its result depends on its caller, which a return probe hides"
            if function.name in CALLS_BACK:
                return "it calls functions of the program, which may throw a C++ exception across it"
        if reads_own_return(self._code, function):
            return "it reads its return address, where a return probe puts another"
        if self.c_library:
            return None
        frame = self._code.frames.frame_at(function.address)
        if frame is not None and frame.handler:
            return "it has exception tables of its own"
        if self.library and self._calls_through_pointers(self._code.range_of(function)):
            return "it calls through a pointer, so a C++ exception of a callback may cross it"
        return None

    def _calls_through_pointers(self, of: Range) -> bool:
        through_pointers = self._through_pointers.get((of.start, of.end))
        if through_pointers is None:
            through_pointers = self._through_pointers[of.start, of.end] = self._look_for_pointers(of)
        return through_pointers

    def _look_for_pointers(self, of: Range) -> bool:
        if self._elf.machine not in EM_X86:
            return any(call.calls and call.mnemonic != "bl" for call in self._code.instructions(of))
        self._code.spend(of.end - of.start)
        content = self._elf.memory(of.start, of.end - of.start, "the function's code") or b""
        for call in _INDIRECT_CALL.finditer(content):
            if call[0][1] != 0x15:
                return True
            # `call *slot(%rip)`, or `call *slot` on i386: an import, if the slot is in the global offset table.
            start = call.start()
            displacement = int.from_bytes(content[start + 2 : start + 6], "little", signed=True)
            slot = of.start + start + 6 + displacement if self._elf.machine == EM_X86_64 else displacement
            if not any(table.holds(slot) for table in self._offset_tables):
                return True
        return False

    @cached_property
    def _offset_tables(self) -> list[Range]:
        """The ranges in which pointers to imported functions are kept."""
        return [
            Range(section.address, section.address + section.size, section.name)
            for section in self._elf.sections
            if section.name in (".got", ".got.plt")
        ]
