"""Check wheels without running them: their tags, their files, and what the kernel in them needs of a system.

Prints a line for each wheel that is given, and raises an error at the first that its platform could not install or
load. Needs abi3audit, macholib, pefile and pyelftools.
"""

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pefile
from elftools.elf.elffile import ELFFile
from macholib import mach_o
from macholib.MachO import MachO

# what every system of a kind brings along, so that nothing else may be needed
SYSTEM = {
    "manylinux": "libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1",
    "musllinux": "libc.so libc.musl-x86_64.so.1 libc.musl-aarch64.so.1",
    "macosx": "/usr/lib/libSystem.B.dylib /usr/lib/libiconv.2.dylib /usr/lib/libcharset.1.dylib",
    "win": "kernel32.dll ntdll.dll userenv.dll ws2_32.dll bcryptprimitives.dll msvcrt.dll python3.dll",
}
MOST_BYTES = 8_000_000


def newest(versions: set[str]) -> tuple[int, ...]:
    return max((tuple(map(int, version.split("."))) for version in versions), default=(0,))


def elf(data: bytes, tag: str) -> tuple[list[str], str]:
    """Return the libraries that a module of Linux needs, and what else is to be known of it."""
    file = ELFFile(io.BytesIO(data))
    assert file["e_machine"] == ("EM_AARCH64" if tag.endswith("aarch64") else "EM_X86_64"), file["e_machine"]
    entries = {entry.entry.d_tag: entry for entry in file.get_section_by_name(".dynamic").iter_tags()}
    assert not {"DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"} & entries.keys(), sorted(entries)
    needed = [entry.needed for entry in file.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    found = file.get_section_by_name(".gnu.version_r")
    names = {version.name for _, versions in found.iter_versions() for version in versions} if found else set()
    glibc = newest({name.removeprefix("GLIBC_") for name in names if re.fullmatch(r"GLIBC_[\d.]+", name)})
    if tag.startswith("manylinux"):
        assert (0,) < glibc <= tuple(map(int, tag.split("_")[1:3])), glibc
        return needed, f"glibc {'.'.join(map(str, glibc))}"
    assert not names, names
    return needed, "no versions of symbols"


def macho(data: bytes, tag: str) -> tuple[list[str], str]:
    """Return the libraries that a module of macOS needs, and the oldest system that it says it runs on."""
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(data)
        copy.flush()
        (header,) = MachO(copy.name).headers
    assert mach_o.CPU_TYPE_NAMES[header.header.cputype] == ("ARM64" if tag.endswith("arm64") else "x86_64")
    commands = {command.get_cmd_name(): values for command, values, _ in header.commands}
    # macOS loads nothing on ARM that has no signature, be it one without an identity
    assert "LC_CODE_SIGNATURE" in commands or not tag.endswith("arm64"), sorted(map(str, commands))
    built = commands.get("LC_BUILD_VERSION")
    oldest = int(built.minos if built else commands["LC_VERSION_MIN_MACOSX"].version)
    version = oldest >> 16, oldest >> 8 & 255
    assert version <= tuple(map(int, tag.split("_")[1:3])), version
    needed = [name for _, command, name in header.walkRelocatables() if command != mach_o.LC_ID_DYLIB]
    return needed, f"macOS {version[0]}.{version[1]}" + (", signed" if "LC_CODE_SIGNATURE" in commands else "")


def pe(data: bytes, tag: str) -> tuple[list[str], str]:
    """Return the libraries that a module of Windows needs."""
    file = pefile.PE(data=data)
    assert tag == "win_amd64"
    assert file.FILE_HEADER.Machine == pefile.MACHINE_TYPE["IMAGE_FILE_MACHINE_AMD64"]
    exported = {symbol.name for symbol in file.DIRECTORY_ENTRY_EXPORT.symbols}
    assert b"PyInit__kernel" in exported, exported
    needed = [entry.dll.decode() for entry in file.DIRECTORY_ENTRY_IMPORT]
    return needed, "64 bits"


def inspect(path: Path) -> str:
    """Check one wheel, and return what was found."""
    name, version, python, abi, tag = path.stem.split("-")
    system = re.match("[a-z]+", tag)[0]
    assert (name, python, abi) == ("tegula", "cp311", "abi3"), path.name
    size = path.stat().st_size
    assert size < MOST_BYTES, size
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        info = f"tegula-{version}.dist-info"
        tags = Parser().parsestr(wheel.read(f"{info}/WHEEL").decode()).get_all("Tag")
        assert tags == [f"cp311-abi3-{tag}"], tags
        for needed in ("LICENSE", "THIRD_PARTY_LICENSES"):
            assert f"{info}/licenses/{needed}" in names, f"{needed} is missing"
        assert "tegula/server/page/licenses.txt" in names
        assert all(name.startswith(("tegula/", info)) for name in names), names
        kernels = [name for name in names if name.endswith((".so", ".pyd", ".dylib", ".dll"))]
        assert kernels == ["tegula/_kernel.pyd" if system == "win" else "tegula/_kernel.abi3.so"], kernels
        data = wheel.read(kernels[0])
    needed, facts = {"macosx": macho, "win": pe}.get(system, elf)(data, tag)
    # the C library of Windows in its parts
    others = [name for name in needed if not name.lower().startswith("api-ms-win-")]
    strange = {name.lower() for name in others} - {name.lower() for name in SYSTEM[system].split()}
    assert not strange, f"{path.name} needs {sorted(strange)}"
    audit = [sys.executable, "-m", "abi3audit", "--strict", path]
    subprocess.run(audit, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return f"{path.name}: {size:,} bytes, the kernel {len(data):,}; {facts}; needs {', '.join(sorted(others))}"


for given in sys.argv[1:]:
    print(inspect(Path(given)), flush=True)
