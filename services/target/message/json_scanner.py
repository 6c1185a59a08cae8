"""JsonScanner: finds the end of a JSON value in a text that is still growing."""

import re

_OUTSIDE = re.compile(r'[{}\[\]"]|[^\s\w+.,:-]')  # brackets and quotes, and characters that JSON has in strings only
_MOST_DEPTH = 64
_INSIDE = re.compile(r'["\\]')


class JsonScanner:
    """Tracks the nesting of an object or a list, and reads each character once."""

    def __init__(self, start: int) -> None:
        """The value begins at `start`."""
        self.start = start
        self.position = start
        """The end of the scanned text, which may be the beginning of a JSON value up to here."""
        self._depth = 0
        self._is_inside = False

    def end(self, text: str) -> int | None:
        """The end of the value in `text`, None if it is not complete; `text` must begin with the previous call's text.

        Raises ValueError for a text that cannot be JSON, or that nests too deeply.
        """
        while found := (_INSIDE if self._is_inside else _OUTSIDE).search(text, self.position):
            if found.group() == "\\":
                if found.end() == len(text):  # the escaped character is not known yet
                    self.position = found.start()
                    return None
                self.position = found.end() + 1
                continue
            self.position = found.start()
            self._take(found.group())
            self.position = found.end()
            if not self._depth:
                return self.position
        self.position = len(text)
        return None

    def _take(self, character: str) -> None:
        match character:
            case '"':
                self._is_inside = not self._is_inside
            case "{" | "[" if self._depth < _MOST_DEPTH:
                self._depth += 1
            case "}" | "]":
                self._depth -= 1
            case _:
                raise ValueError(f"{character!r} stands where it cannot")
