"""Log formats: text for people, or one JSON object a line."""

import json
import logging
import time

_TEXT = "%(asctime)s {service} %(levelname)s %(name)s: %(message)s"
_FIELDS = ("request_id", "trace_id")
"""Fields of a line about one request, if `extra` has them."""


def configure_logging(service: str, log_format: str) -> None:
    """Set up the log of a service's process, from level INFO, in the format "text" or "json"."""
    handler = logging.StreamHandler()
    text = logging.Formatter(_TEXT.format(service=service))
    handler.setFormatter(JsonFormatter(service) if log_format == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it would log each HTTP request of a download
    logging.getLogger("grpc._cython.cygrpc").addFilter(_has_no_metadata)


def current_format() -> str:
    """Return the format of this process's log."""
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    return "json" if any(isinstance(each, JsonFormatter) for each in formatters) else "text"


def _has_no_metadata(record: logging.LogRecord) -> bool:
    """Return whether a record is free of a caller's metadata: grpcio logs metadata that are not UTF-8 in full."""
    return not str(record.msg).startswith("Invalid encoding on")


class JsonFormatter(logging.Formatter):
    """One object a line: time in UTC, service, level, logger, message, the request's ids, more fields, an exception."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "service": self._service,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in _FIELDS if (value := getattr(record, name, ""))}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
