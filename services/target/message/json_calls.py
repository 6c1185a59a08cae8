"""JsonCalls: reads the tool calls in a JSON text that is still growing."""

from collections.abc import Set

from services.target.message.call_text import read_arguments, read_text
from services.target.message.call_writer import CallWriter
from services.target.message.json_scanner import JsonScanner, Place

_ARGUMENTS = ("arguments", "parameters")


class JsonCalls:
    """The text is the arguments of a named tool; or an object, or a list of objects, that have a name and arguments.

    A call begins with the first value among its arguments, if its name is known by then; they are written as they come.
    """

    def __init__(self, start: int, name: str | None, calls: CallWriter, tools: Set[str] | None = None) -> None:
        """The JSON begins at `start`. With `tools`, a call must name one of them, and have arguments."""
        self._json = JsonScanner(start)
        self._calls = calls
        self._tools = tools
        self._depth = 1 if name is None else 0  # of the arguments
        self._name = name  # of the current call
        self._field = "" if name is None else _ARGUMENTS[0]
        self._arguments: str | None = None  # those that came before the name
        self._start = 0  # of the current field's key or value
        self._unwritten: int | None = None  # the beginning of the arguments that are being read, as far as not written
        self._has_value = False  # whether they have a value
        self._object: int | None = 0  # the beginning of an object that has made no call yet

    @property
    def position(self) -> int:
        """The end of the text that may be calls up to here."""
        return self._json.position

    @property
    def kept(self) -> int:
        """The end of the text that calls have been made of."""
        return self.position if self._object is None else self._object

    def read(self, text: str) -> int | None:
        """Write the calls; returns the end of the JSON, None if it is not complete. `text` must begin with the previous
        call's text. Raises ValueError if the text makes no calls beyond those that were written.
        """
        try:
            for place, depth in self._json.read(text):
                if depth == self._depth:
                    self._read_field(place, text)
                elif place is Place.VALUE and depth == self._depth + 1:
                    self._has_value = True
                elif place is Place.VALUE and depth == self._depth - 1:
                    self._begin_object(text)
                elif place is Place.AFTER_VALUE and depth == self._depth - 1:
                    self._end_object()
        finally:
            self._write(text)
        if not self._json.is_whole:
            return None
        if self._object is not None:
            raise ValueError("it makes no call")
        return self.position

    def _begin_object(self, text: str) -> None:
        if self._depth == 1 and text.startswith("[", self.position):
            self._depth = 2
        elif not text.startswith("{", self.position):
            raise ValueError("it is no object")
        elif self._object is None:
            self._object, self._name, self._arguments = self.position, None, None

    def _end_object(self) -> None:
        if self._object is None:
            return
        if self._name is None or self._tools is not None:
            raise ValueError("it has no name, or no arguments")
        self._write_whole("{}")

    def _read_field(self, place: Place, text: str) -> None:
        match place:
            case Place.KEY:
                self._start = self.position
            case Place.AFTER_KEY:
                self._field = read_text(text[self._start : self.position])
            case Place.VALUE:
                self._begin_value(text)
            case Place.AFTER_VALUE if self._unwritten is not None:
                self._end_arguments(text)
            case Place.AFTER_VALUE if self._field == "name" and self._name is None:
                self._read_name(text[self._start : self.position])

    def _begin_value(self, text: str) -> None:
        self._start = self.position
        if self._field in _ARGUMENTS and self._object is not None and self._arguments is None:
            if text[self.position] not in '{"n':
                raise ValueError("its arguments are no object")
            self._unwritten, self._has_value = self.position, False

    def _end_arguments(self, text: str) -> None:
        self._write(text)
        if self._calls.is_open:
            self._calls.end()
        else:
            self._arguments = read_arguments(text[self._start : self.position])
            if self._name is not None:
                self._write_whole(self._arguments)
        self._unwritten = None

    def _read_name(self, text: str) -> None:
        self._name = read_text(text)
        if not self._name or (self._tools is not None and self._name not in self._tools):
            raise ValueError("it is an object like any other")
        if self._arguments is not None:
            self._write_whole(self._arguments)

    def _write(self, text: str) -> None:
        """Write arguments that are an object, as far as they were read."""
        if self._unwritten is None or self._name is None or not self._has_value:
            return
        if not self._calls.is_open:
            self._begin(self._name)
        self._calls.add(text[self._unwritten : self.position])
        self._unwritten = self.position

    def _write_whole(self, arguments: str) -> None:
        assert self._name is not None
        self._begin(self._name)
        self._calls.add(arguments)
        self._calls.end()

    def _begin(self, name: str) -> None:
        self._calls.begin(name)
        self._object = None
