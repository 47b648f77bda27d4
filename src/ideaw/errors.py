"""What users can get wrong, as one family of exceptions: each message is one line that says
what is wrong and what would work. The command line prints that line and exits with 2."""

import errno
import os


class IdeawError(Exception):
    """Anything that the caller can mend."""


class AudioError(IdeawError):
    """Samples that cannot be marked or read: empty, not finite, silent, too short, of a wrong shape or rate."""


class TooLongError(AudioError):
    """Audio of more seconds than the caller allows."""


class LostMarkError(AudioError):
    """A mark that was made, and could not be read back from what would have been written."""


class AlreadyMarkedError(AudioError):
    """Audio that carries a readable mark already, and would get another one over it."""


class FileError(IdeawError):
    """A file that cannot be read or written: missing, truncated, of an unknown format, a directory."""


class MessageError(IdeawError):
    """A message that does not fit, or is not text, bytes or bits."""


class ModelError(IdeawError):
    """A model that does not exist or does not fit this version."""


class MissingExtraError(IdeawError):
    """A feature whose optional packages are not installed."""


class RegistryError(IdeawError):
    """A registry that is locked, down, of another version or no registry; an id that it does not know, or knows."""


class CredentialError(IdeawError):
    """A certificate, key or manifest that cannot be used to sign, or roots that cannot be trusted."""


class PeerError(IdeawError):
    """Another system that is not installed, does not answer in time, or cannot do what it is asked."""


def error_reason(problem: Exception) -> str:
    """What went wrong, in the words of the system where it has some."""
    if isinstance(problem, OSError) and problem.errno is not None:
        return os.strerror(problem.errno).lower()
    return " ".join(str(problem).split()) or os.strerror(errno.EIO).lower()
