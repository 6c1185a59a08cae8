"""CallWriter: adds tool calls to the deltas of a message while they are generated."""

from services.target.message.deltas import Arguments, CallStart, Delta, ToolCall


class CallWriter:
    """Writes one call after the other."""

    def __init__(self, deltas: list[Delta]) -> None:
        """Deltas are appended to this list."""
        self._deltas = deltas
        self._name: str | None = None
        self._arguments: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._name is not None

    def begin(self, name: str) -> None:
        """Begin a call."""
        self._name = name
        self._arguments.clear()
        self._deltas.append(CallStart(name))

    def add(self, arguments: str) -> None:
        """Add to the text of the arguments."""
        if arguments:
            self._arguments.append(arguments)
            self._deltas.append(Arguments(arguments))

    def end(self) -> None:
        """End the call, if one is open."""
        if self._name is not None:
            self._deltas.append(ToolCall(self._name, "".join(self._arguments)))
            self._name = None
