"""Failures of the clients: whether a retry may help, and their text in one line without secrets."""

from __future__ import annotations

import random
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Answer = TypeVar("_Answer")
# Seconds between tries of what the core does not try; a little more or less each.
_WAITS = (0.1, 0.4, 1.6, 6.4)

# The order counts: the first match decides. What clients say was tried with each (tests/python/test_storage_faults.py).
_KINDS = (
    ("changed", re.compile(r"precondition", re.IGNORECASE)),
    (
        "denied",
        re.compile(
            r"ACCESS_DENIED|AccessDenied|Forbidden|Unauthorized|ExpiredToken|INVALID_ACCESS_KEY_ID|InvalidAccessKeyId"
            r"|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|UNRECOGNIZED_CLIENT|INVALID_CLIENT_TOKEN|AuthenticationFailed"
            r"|credentials",
            re.IGNORECASE,
        ),
    ),
    (
        "missing",
        re.compile(
            r"NO_SUCH_(?:KEY|BUCKET|UPLOAD)|NoSuch(?:Key|Bucket)|RESOURCE_NOT_FOUND|ContainerNotFound|BlobNotFound"
        ),
    ),
    (
        "transient",
        re.compile(
            r"SLOW_DOWN|SlowDown|THROTTL|TooManyRequests|INTERNAL_FAILURE|InternalError"
            r"|SERVICE_UNAVAILABLE"
            r"|ServiceUnavailable|ServerBusy|NETWORK_CONNECTION|REQUEST_TIMEOUT|RequestTime|curlCode"
            r"|connection|timed? ?out"
            r"|error sending request|HTTP error|body error|non-partial response|Requested \d+\.\.\d+, got|reset by peer"
            r"|broken pipe"
            r"|incomplete|partial",
            re.IGNORECASE,
        ),
    ),
)
_STATUS = re.compile(r"status(?: code)?:? (\d{3})\b")
_BY_STATUS = {
    **dict.fromkeys((401, 403), "denied"),
    404: "missing",
    412: "changed",
    **dict.fromkeys((429, 500, 502, 503, 504), "transient"),
}
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
# In the middle of what obstore says: the XML of the answer.
_XML = re.compile(r"<\?xml.*?<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?.*", re.DOTALL)
# What to do about a failure. The addresses are those at which machines of a cloud are given credentials.
_ADVICE = (
    (
        re.compile(r"169\.254\.\d+\.\d+|metadata\.google\.internal|Unable to locate credentials|NoCredentials"),
        (
            "; no credentials were found: give them in storage_options (--storage-option NAME=env:VARIABLE) or in the "
            "environment, AWS_ACCESS_KEY_ID for instance; kafkalog help object-stores has the names"
        ),
    ),
    (
        re.compile(
            r"AuthorizationHeaderMalformed|PermanentRedirect|redirect without LOCATION|specified endpoint"
            r"|region '[^']*' is wrong"
        ),
        "; the bucket is in another region: give storage option aws_region",
    ),
)
_MAX_TEXT = 500
_ALWAYS_TRANSIENT = (TimeoutError, ConnectionError)


class StoreError(OSError):
    """A request that failed.

    Attributes
    ----------
    kind : {"missing", "denied", "changed", "transient", "other"}
        Decides whether the request is retried, and how the failure is reported.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def patiently(request: Callable[[], _Answer]) -> _Answer:
    """Make a request, and retry it after a while if the failure may be temporary."""
    for wait in _WAITS:
        try:
            return request()
        except OSError as error:  # noqa: PERF203 - a request takes longer
            if getattr(error, "kind", None) != "transient":
                raise
            time.sleep(wait * (0.5 + random.random()))  # noqa: S311 - no secret
    return request()


def fail(error: BaseException, secrets: Iterable[str]) -> NoReturn:
    """Raise what a client raised as a failure of a kind, with what to do about it."""
    kind = kind_of(error)
    if kind == "missing":
        # Clients say it in several ways, some of them with the text of a local error.
        what = "bucket; check its name" if _NO_BUCKET.search(_first(error)) else "object"
        raise StoreError(kind, f"there is no such {what}") from None
    advice = next((advice for pattern, advice in _ADVICE if pattern.search(_first(error))), "")
    raise StoreError(kind, redacted(error, secrets) + advice) from None


@contextmanager
def about_options(root: str, secrets: Iterable[str]) -> Iterator[None]:
    """Raise what a client says of its options when it is made, in its own class perhaps, as ``ValueError``."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - clients raise whatever they like
        raise ValueError(f"{root}: storage_options: {redacted(error, secrets)}") from None


def kind_of(error: BaseException) -> str:
    """Return the kind of a client's exception."""
    if isinstance(error, StoreError):
        return error.kind
    name = type(error).__name__
    if isinstance(error, FileNotFoundError) or name == "NotFoundError":
        return "missing"
    if isinstance(error, PermissionError) or name in {
        "PermissionDeniedError",
        "UnauthenticatedError",
        "NoCredentialsError",
    }:
        return "denied"
    if name in {"PreconditionError", "NotModifiedError"}:
        return "changed"
    if isinstance(error, _ALWAYS_TRANSIENT) or name == "FSTimeoutError":
        return "transient"
    text = _first(error)
    # Not any number: obstore's texts have the microseconds of a request.
    code = _STATUS.search(text)
    status = int(code[1]) if code else getattr(error, "status", None)
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "other")


def _first(error: BaseException) -> str:
    """Return the text without obstore's long account of its inner errors."""
    return str(error).partition("Debug source")[0]


def redacted(error: BaseException, secrets: Iterable[str]) -> str:
    """Return the text in one line, without secrets."""
    text = _XML.sub(lambda found: f"{found[1]}: {found[2]}" if found[2] else found[1], _first(error))
    text = " ".join(text.split()) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "***")
    text = re.sub(r"(?i)((?:sig|signature|x-amz-signature|token|x-amz-security-token)=)[^&\s'\"]+", r"\1***", text)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."
