"""How lines of the log are written: as text for people, or each as one JSON object."""

import json
import logging
import time

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FIELDS = ("request_id", "trace_id")
"""What a line about one request carries as fields, where `extra` gives them."""


def configure_logging(log_format: str) -> None:
    """Set up the process's log: everything from INFO up, in "text" or "json"."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # of a download: else a line for each request
    logging.getLogger("grpc._cython.cygrpc").addFilter(_tells_no_metadata)


def _tells_no_metadata(record: logging.LogRecord) -> bool:
    """A caller's metadata that are not UTF-8 are read as Latin-1; grpcio would log them in full, whatever they hold."""
    return not str(record.msg).startswith("Invalid encoding on")


class JsonFormatter(logging.Formatter):
    """One object a line: time in UTC, level, logger, message, what identifies the request, and what went wrong."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in _FIELDS if (value := getattr(record, name, ""))}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
