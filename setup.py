"""What pyproject.toml can't declare: a line that says when the kernel was not built, and one wheel for any Python."""

import sys
import sysconfig

from setuptools import setup
from setuptools_rust import RustExtension, build_rust


class BuildKernel(build_rust):
    """Builds the kernel; it is optional, so what went wrong stands in the output and ends nothing."""

    built = False
    told = False

    def run(self) -> None:
        """Build it, and say if it could not be."""
        super().run()
        if not self.built and not BuildKernel.told:
            BuildKernel.told = True
            print(
                "tegula: the kernel was not built, so chunks will be read and written by the reference executor, which "
                "gives the same results and takes longer; it needs Rust 1.85 or newer (https://rustup.rs)",
                file=sys.stderr,
            )

    def run_for_extension(self, extension: RustExtension) -> None:
        """Build one extension."""
        super().run_for_extension(extension)
        self.built = True

    def get_dylib_ext_path(self, extension: RustExtension, name: str) -> str:
        """Return where the module goes; it has Windows' suffix also where another system compiles it for Windows."""
        path = super().get_dylib_ext_path(extension, name)
        return path.replace(".abi3.so", ".pyd") if self.plat_name == "win-amd64" else path


# an interpreter without its lock has no stable ABI, so that there the module is built for one version
stable = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"bdist_wheel": {"py_limited_api": "cp311"}}
setup(cmdclass={"build_rust": BuildKernel}, options=stable)
