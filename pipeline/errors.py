"""The errors a user can meet, each with an exit code of its own."""


class MaliSdkError(Exception):
    """Base of all errors that are explained to the user instead of shown as a traceback.

    The message reads ``<file or id>: <what>, got <value>; expected <values>``; ``hint`` names the command or option to
    change. ``exit_code`` is what the command line returns.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message


class ConfigError(MaliSdkError):
    """An option, target, recipe or file name that makes no sense."""

    exit_code = 2


class NothingToDo(MaliSdkError):
    """The request selects nothing."""

    exit_code = 3


class ImportFailed(MaliSdkError):
    """A model file that cannot be read, or holds something this pipeline does not support."""

    exit_code = 4


class ScheduleError(MaliSdkError):
    """A schedule rule matched a kernel and then could not be applied."""

    exit_code = 5


class ToolchainError(MaliSdkError):
    """A compiler, package or other outside program is missing or failed."""

    exit_code = 6


class BundleError(MaliSdkError):
    """A bundle or .mali file that cannot be written, or is not what it should be."""

    exit_code = 7


class DeviceError(MaliSdkError):
    """A device that cannot be reached, lacks something, or gave wrong results."""

    exit_code = 8
